/* e^x / 2 of a double from 16 on, which overflows later than e^x. */
#include "exp_sum_f64.h"

static inline double exploy_half_exp_f64(double x)
{
  return exploy_exp_sum_f64(x - 0x1.62e42fefa38p-1, -0x1.ef35793c7673p-45); /* the difference is exact */
}
