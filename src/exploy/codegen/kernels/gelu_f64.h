/* x / 2 (1 + erf(x / sqrt(2))) of a double, computed in this way: NaN for -inf, and below -7 few digits are right. */
#include "erf_f64.h"

static inline double exploy_gelu_f64(double x)
{
  return 0.5 * x * (1.0 + exploy_erf_f64(x * 0x1.6a09e667f3bcdp-1));
}
