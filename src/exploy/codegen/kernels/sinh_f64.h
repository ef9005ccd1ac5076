/* The hyperbolic sine of a double. */
#include "expm1_f64.h"
#include "half_exp_f64.h"

static inline double exploy_sinh_f64(double x)
{
  const double size = fabs(x);
  double value = size; /* also of NaN */
  if (size > 22.0) {
    value = exploy_half_exp_f64(size);
  } else if (size > 0x1p-27) {
    const double e = exploy_expm1_f64(size);
    value = 0.5 * (e + e / (e + 1.0));
  }
  return copysign(value, x);
}
