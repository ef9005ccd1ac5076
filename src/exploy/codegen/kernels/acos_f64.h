/* The arccosine of a double. */
#include "arcsine_f64.h"
#include "half_angle_f64.h"

static inline double exploy_acos_f64(double x)
{
  double value = (double)NAN;
  if (fabs(x) <= 0.5) {
    value = 0x1.921fb54442d18p+0 - (x - (0x1.1a62633145c07p-54 - exploy_arcsine_f64(x)));
  } else if (fabs(x) <= 1.0) {
    const exploy_half_angle_f64_t half = exploy_half_angle_f64(fabs(x));
    if (x > 0.0) {
      value = 2.0 * (half.high + half.low);
    } else {
      value = 2.0 * (0x1.921fb54442d18p+0 - (half.high + (half.low - 0x1.1a62633145c07p-54)));
    }
  }
  return value;
}
