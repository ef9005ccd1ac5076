/* log(1 + e^x) of a double. */
#include "exp_f64.h"
#include "log1p_f64.h"
#include "select_f64.h"

static inline double exploy_softplus_f64(double x)
{
  return exploy_select_f64(x > 0.0, x, 0.0) + exploy_log1p_f64(exploy_exp_f64(-fabs(x)));
}
