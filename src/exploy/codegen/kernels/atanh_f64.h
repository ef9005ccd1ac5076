/* The inverse hyperbolic tangent of a double: infinity at 1, NaN beyond. */
#include "log1p_f64.h"

static inline double exploy_atanh_f64(double x)
{
  const double size = fabs(x);
  double value = size; /* of small numbers and NaN */
  if (size > 1.0) {
    value = (double)NAN;
  } else if (size >= 0.5) {
    value = 0.5 * exploy_log1p_f64(2.0 * size / (1.0 - size));
  } else if (size > 0x1p-28) {
    value = 0.5 * exploy_log1p_f64(2.0 * size + 2.0 * size * size / (1.0 - size));
  }
  return copysign(value, x);
}
