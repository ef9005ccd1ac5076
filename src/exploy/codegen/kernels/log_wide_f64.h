/* The natural logarithm of a finite double above zero, as a sum of two with about 66 right bits. */
#include "log_split_f64.h"
#include "product_f64.h"

typedef struct {
  double high;
  double low; /* below the last digit of high */
} exploy_log_wide_f64_t;

static inline exploy_log_wide_f64_t exploy_log_wide_f64(double x)
{
  const exploy_log_split_f64_t split = exploy_log_split_f64(x);
  const double f = split.m - 1.0;
  /* s + s_low is f / (2 + f), and log(1 + f) is 2 s + 2/3 s^3 + 2/5 s^5 + ... */
  const double below = split.m + 1.0;
  const double below_low = split.m - (below - 1.0);
  const double s = f / below;
  const exploy_product_f64_t again = exploy_product_f64(s, below);
  const double s_low = (((f - again.high) - again.low) - s * below_low) / below;
  const exploy_product_f64_t square = exploy_product_f64(s, s);
  const double square_low = square.low + 2.0 * s * s_low;
  double p = 0x1.e7d84cecaceb3p-4;
  p = p * square.high + 0x1.de9f4c587e64cp-4;
  p = p * square.high + 0x1.111dca79cfe23p-3;
  p = p * square.high + 0x1.3b1378468d036p-3;
  p = p * square.high + 0x1.745d17d7404ccp-3;
  p = p * square.high + 0x1.c71c71c65a094p-3;
  p = p * square.high + 0x1.24924924927cfp-2;
  p = p * square.high + 0x1.999999999999ap-2;
  const exploy_product_f64_t fifth = exploy_product_f64(square.high, p);
  const double third = 0x1.5555555555555p-1 + fifth.high;
  const double third_low =
      (0x1.5555555555555p-1 - third) + fifth.high + (fifth.low + square_low * p + 0x1.5555555555555p-55);
  const exploy_product_f64_t tail = exploy_product_f64(square.high, third);
  const double tail_low = tail.low + square_low * third + square.high * third_low;
  const exploy_product_f64_t cube = exploy_product_f64(s, tail.high);
  const double cube_low = cube.low + s * tail_low + s_low * tail.high;
  const double whole = split.n * 0x1.62e42fefa38p-1; /* exact: n has 11 bits, the constant 42 */
  const double first = whole + 2.0 * s;
  const double sum = first + cube.high;
  const double lost = ((whole - first) + 2.0 * s) + ((first - sum) + cube.high);
  const double rest = lost + (cube_low + 2.0 * s_low + split.n * 0x1.ef35793c7673p-45);
  exploy_log_wide_f64_t result;
  result.high = sum + rest;
  result.low = (sum - result.high) + rest;
  return result;
}
