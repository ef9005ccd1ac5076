/* A double, but at least `low` and at most `high`. NaN stays. */
#include "select_f64.h"

static inline double exploy_clamp_f64(double x, double low, double high)
{
  return exploy_select_f64(x < low, low, exploy_select_f64(x > high, high, x));
}
