/* 2^n as two factors, for n from -252 to 254 modulo 2^32: a number times both is rounded at most once. */
#include "f32_of_word.h"

typedef struct {
  float first;
  float second;
} exploy_power_of_two_f32_t;

static inline exploy_power_of_two_f32_t exploy_power_of_two_f32(uint32_t n)
{
  const uint32_t both = n + 254u; /* of two biased exponents */
  const uint32_t half = both >> 1;
  exploy_power_of_two_f32_t result;
  result.first = exploy_f32_of_word(half << 23);
  result.second = exploy_f32_of_word((both - half) << 23);
  return result;
}
