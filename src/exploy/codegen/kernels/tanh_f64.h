/* The hyperbolic tangent of a double. */
#include "clamp_f64.h"
#include "expm1_f64.h"

static inline double exploy_tanh_f64(double x)
{
  const double e = exploy_expm1_f64(2.0 * exploy_clamp_f64(fabs(x), 0.0, 20.0)); /* from 20 on, the result is 1 */
  return copysign(e / (e + 2.0), x);
}
