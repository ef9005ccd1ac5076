/* The inverse hyperbolic cosine of a double: NaN below 1. */
#include "log1p_f64.h"
#include "log_split_f64.h"
#include "log_sum_f64.h"

static inline double exploy_acosh_f64(double x)
{
  double value = x < 1.0 ? (double)NAN : x; /* also of NaN and infinity */
  if (x > 0x1p+28 && x < (double)INFINITY) {
    const exploy_log_split_f64_t split = exploy_log_split_f64(x);
    value = exploy_log_sum_f64(split.n + 1.0, split.m - 1.0); /* log(2 x) */
  } else if (x >= 1.0 && x <= 0x1p+28) {
    const double above = x - 1.0;
    value = exploy_log1p_f64(above + sqrt(2.0 * above + above * above));
  }
  return value;
}
