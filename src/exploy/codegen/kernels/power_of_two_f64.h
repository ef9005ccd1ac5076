/* 2^n as two factors, for n from -2044 to 2046 modulo 2^64: a number times both is rounded at most once. */
#include "f64_of_word.h"

typedef struct {
  double first;
  double second;
} exploy_power_of_two_f64_t;

static inline exploy_power_of_two_f64_t exploy_power_of_two_f64(uint64_t n)
{
  const uint64_t both = n + 2046u; /* of two biased exponents */
  const uint64_t half = both >> 1;
  exploy_power_of_two_f64_t result;
  result.first = exploy_f64_of_word(half << 52);
  result.second = exploy_f64_of_word((both - half) << 52);
  return result;
}
