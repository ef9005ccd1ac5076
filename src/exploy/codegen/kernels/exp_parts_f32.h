/* e^x = 2^n (1 + e) of a float, with |e| below 0.42. Takes |x| up to 104, and NaN, for which e is NaN. */
#include "word_of_f32.h"

typedef struct {
  uint32_t n; /* modulo 2^32; anything for NaN */
  float e;
} exploy_exp_parts_f32_t;

static inline exploy_exp_parts_f32_t exploy_exp_parts_f32(float x)
{
  const float shifted = x * 0x1.715476p+0f + 0x1.8p+23f; /* the sum is rounded to a whole number */
  const float n = shifted - 0x1.8p+23f;
  const float high = x - n * 0x1.62e4p-1f; /* exact: n has 8 bits, the constant 16 */
  const float low = n * 0x1.7f7d1cp-20f;
  const float r = high - low;
  float p = 0x1.a293cep-13f;
  p = p * r + 0x1.6d436ep-10f;
  p = p * r + 0x1.110fep-7f;
  p = p * r + 0x1.5554fp-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0x1p-1f;
  exploy_exp_parts_f32_t result;
  result.n = exploy_word_of_f32(shifted) - 0x4b400000u;
  result.e = r + (p * r * r + ((high - r) - low)); /* the last part is what rounding took from r */
  return result;
}
