/* e^x of a double. Underflow is gradual. */
#include "exp_sum_f64.h"

static inline double exploy_exp_f64(double x)
{
  return exploy_exp_sum_f64(x, 0.0);
}
