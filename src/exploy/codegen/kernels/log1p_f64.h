/* log(1 + x) of a double, without cancellation. */
#include "log_split_f64.h"
#include "log_sum_f64.h"
#include "select_f64.h"

static inline double exploy_log1p_f64(double x)
{
  const bool usual = (x > -1.0) & (x < (double)INFINITY);
  const double t = exploy_select_f64(usual, x, 0.0);
  const double sum = 1.0 + t;
  const double part = sum - 1.0;
  const double lost = (1.0 - (sum - part)) + (t - part); /* what rounding took from the sum */
  const exploy_log_split_f64_t split = exploy_log_split_f64(sum);
  const double f = (split.m - 1.0) + lost * (split.m / sum);
  const double negative = exploy_select_f64(x < 0.0, (double)NAN, x);
  const double otherwise = exploy_select_f64(x == -1.0, -(double)INFINITY, negative);
  return copysign(exploy_select_f64(usual, exploy_log_sum_f64(split.n, f), otherwise), x);
}
