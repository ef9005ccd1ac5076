/* x if it is above zero, else alpha (e^x - 1), of doubles. */
#include "expm1_f64.h"
#include "select_f64.h"

static inline double exploy_elu_f64(double x, double alpha)
{
  const double above = exploy_select_f64(x > 0.0, x, -0.0); /* adding -0 changes no number */
  const double below = exploy_select_f64(x > 0.0, 0.0, x);
  return above + alpha * exploy_expm1_f64(below);
}
