/* The inverse hyperbolic sine of a double. */
#include "log1p_f64.h"
#include "log_split_f64.h"
#include "log_sum_f64.h"

static inline double exploy_asinh_f64(double x)
{
  const double size = fabs(x);
  double value = size; /* also of small numbers, NaN and infinity */
  if (size > 0x1p+28 && size < (double)INFINITY) {
    const exploy_log_split_f64_t split = exploy_log_split_f64(size);
    value = exploy_log_sum_f64(split.n + 1.0, split.m - 1.0); /* log(2 |x|) */
  } else if (size > 0x1p-28 && size <= 0x1p+28) {
    const double square = size * size;
    value = exploy_log1p_f64(size + square / (1.0 + sqrt(1.0 + square)));
  }
  return copysign(value, x);
}
