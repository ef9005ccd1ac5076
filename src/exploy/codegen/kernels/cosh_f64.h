/* The hyperbolic cosine of a double. */
#include "exp_f64.h"
#include "half_exp_f64.h"

static inline double exploy_cosh_f64(double x)
{
  const double size = fabs(x);
  double value = 0.0;
  if (size > 22.0) {
    value = exploy_half_exp_f64(size);
  } else {
    const double e = exploy_exp_f64(size);
    value = 0.5 * e + 0.5 / e;
  }
  return value;
}
