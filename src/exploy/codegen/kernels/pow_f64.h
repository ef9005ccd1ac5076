/* x^y of doubles, with the special cases of C. */
#include "clamp_f64.h"
#include "exp_sum_f64.h"
#include "log_wide_f64.h"
#include "product_f64.h"

static inline double exploy_pow_f64(double x, double y)
{
  const double size = fabs(x);
  const bool whole = floor(y) == y; /* also of infinity, and of all large numbers, which are even */
  const bool odd = whole && floor(0.5 * y) != 0.5 * y;
  double value = 0.0;
  if (x == 1.0 || y == 0.0) {
    value = 1.0;
  } else if (isnan(x) || isnan(y)) {
    value = (double)NAN;
  } else if (isinf(y) && size == 1.0) {
    value = 1.0;
  } else if (size == 0.0 || isinf(x) || isinf(y)) {
    value = (size > 1.0) == (y > 0.0) ? (double)INFINITY : 0.0;
  } else if (x < 0.0 && !whole) {
    value = (double)NAN;
  } else {
    const double power = exploy_clamp_f64(y, -0x1p+64, 0x1p+64); /* beyond, the result is 0 or infinity anyway */
    const exploy_log_wide_f64_t logarithm = exploy_log_wide_f64(size);
    const exploy_product_f64_t product = exploy_product_f64(power, logarithm.high);
    const double low = product.low + power * logarithm.low;
    value = exploy_exp_sum_f64(product.high, fabs(product.high) < 800.0 ? low : 0.0);
  }
  return odd && signbit(x) ? -value : value;
}
