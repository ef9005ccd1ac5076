/* The natural logarithm of a double. */
#include "log_split_f64.h"
#include "log_sum_f64.h"
#include "select_f64.h"

static inline double exploy_log_f64(double x)
{
  const bool usual = (x > 0.0) & (x < (double)INFINITY);
  const exploy_log_split_f64_t split = exploy_log_split_f64(exploy_select_f64(usual, x, 1.0));
  const double negative = exploy_select_f64(x < 0.0, (double)NAN, x);
  const double otherwise = exploy_select_f64(x == 0.0, -(double)INFINITY, negative);
  return exploy_select_f64(usual, exploy_log_sum_f64(split.n, split.m - 1.0), otherwise);
}
