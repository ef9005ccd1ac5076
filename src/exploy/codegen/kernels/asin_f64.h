/* The arcsine of a double. */
#include "arcsine_f64.h"
#include "half_angle_f64.h"

static inline double exploy_asin_f64(double x)
{
  const double size = fabs(x);
  double value = (double)NAN;
  if (size <= 0.5) {
    value = size + exploy_arcsine_f64(size);
  } else if (size <= 1.0) {
    const exploy_half_angle_f64_t half = exploy_half_angle_f64(size);
    const double high = 0x1.921fb54442d18p-1 - 2.0 * half.high; /* pi / 4, and below the other half of pi / 2 */
    value = 0x1.921fb54442d18p-1 + (high - (2.0 * half.low - 0x1.1a62633145c07p-54));
  }
  return copysign(value, x);
}
