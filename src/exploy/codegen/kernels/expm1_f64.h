/* e^x - 1 of a double, without cancellation. */
#include "clamp_f64.h"
#include "exp_parts_f64.h"
#include "power_of_two_f64.h"

static inline double exploy_expm1_f64(double x)
{
  const exploy_exp_parts_f64_t parts = exploy_exp_parts_f64(exploy_clamp_f64(x, -50.0, 710.0), 0.0);
  const exploy_power_of_two_f64_t power = exploy_power_of_two_f64(parts.n);
  const exploy_power_of_two_f64_t inverse = exploy_power_of_two_f64((uint64_t)0 - parts.n);
  /* 2^n (1 - 2^-n + e): unlike 2^n itself, no part of this overflows before the result does */
  const double rest = 1.0 - inverse.first * inverse.second;
  return copysign((rest + parts.e) * power.first * power.second, x);
}
