/* 1 / (1 + e^-x) of a double. Underflow is gradual. */
#include "exp_f64.h"
#include "select_f64.h"

static inline double exploy_sigmoid_f64(double x)
{
  const double e = exploy_exp_f64(-fabs(x));
  return exploy_select_f64(x < 0.0, e, 1.0) / (1.0 + e);
}
