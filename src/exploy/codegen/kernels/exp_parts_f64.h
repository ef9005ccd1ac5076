/* e^(x + low) = 2^n (1 + e) of doubles, with |e| below 0.42. Takes |x| up to 750, and NaN, for which e is NaN. */
#include "word_of_f64.h"

typedef struct {
  uint64_t n; /* modulo 2^64; anything for NaN */
  double e;
} exploy_exp_parts_f64_t;

static inline exploy_exp_parts_f64_t exploy_exp_parts_f64(double x, double low)
{
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52; /* the sum is rounded to a whole number */
  const double n = shifted - 0x1.8p+52;
  const double high = x - n * 0x1.62e42fefa38p-1; /* exact: n has 11 bits, the constant 42 */
  const double rest = n * 0x1.ef35793c7673p-45 - low;
  const double r = high - rest;
  double p = 0x1.1f83e1c58be04p-29;
  p = p * r + 0x1.af5f37267188dp-26;
  p = p * r + 0x1.27e4d14428d45p-22;
  p = p * r + 0x1.71ddf808b6aep-19;
  p = p * r + 0x1.a01a01ab13cadp-16;
  p = p * r + 0x1.a01a01b00610cp-13;
  p = p * r + 0x1.6c16c16c1577dp-10;
  p = p * r + 0x1.111111110f65p-7;
  p = p * r + 0x1.5555555555557p-5;
  p = p * r + 0x1.5555555555559p-3;
  p = p * r + 0x1p-1;
  exploy_exp_parts_f64_t result;
  result.n = exploy_word_of_f64(shifted) - 0x4338000000000000u;
  result.e = r + (p * r * r + ((high - r) - rest)); /* the last part is what rounding took from r */
  return result;
}
