/* x = 2^n m with m from sqrt(1/2) to sqrt(2), for finite x above zero. */
#include "f64_of_word.h"
#include "select_f64.h"
#include "word_of_f64.h"

typedef struct {
  double n;
  double m;
} exploy_log_split_f64_t;

static inline exploy_log_split_f64_t exploy_log_split_f64(double x)
{
  const bool denormal = x < 0x1p-1022;
  const double factor = exploy_select_f64(denormal, 0x1p+54, 1.0);
  const double bias = exploy_select_f64(denormal, 0x1p+52 + 1023.0 + 54.0, 0x1p+52 + 1023.0);
  /* carries from sqrt(2) on */
  const uint64_t word = exploy_word_of_f64(x * factor) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  exploy_log_split_f64_t result;
  result.n = exploy_f64_of_word((word >> 52) + 0x4330000000000000u) - bias;
  result.m = exploy_f64_of_word((word & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  return result;
}
