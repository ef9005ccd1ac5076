/* e^(x + low) of doubles, with low below the last digit of x. Underflow is gradual. */
#include "clamp_f64.h"
#include "exp_parts_f64.h"
#include "power_of_two_f64.h"

static inline double exploy_exp_sum_f64(double x, double low)
{
  const exploy_exp_parts_f64_t parts = exploy_exp_parts_f64(exploy_clamp_f64(x, -746.0, 710.0), low);
  const exploy_power_of_two_f64_t power = exploy_power_of_two_f64(parts.n);
  return (1.0 + parts.e) * power.first * power.second;
}
