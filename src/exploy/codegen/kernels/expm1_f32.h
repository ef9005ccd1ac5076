/* e^x - 1 of a float, without cancellation. */
#include "clamp_f32.h"
#include "exp_parts_f32.h"
#include "power_of_two_f32.h"

static inline float exploy_expm1_f32(float x)
{
  const exploy_exp_parts_f32_t parts = exploy_exp_parts_f32(exploy_clamp_f32(x, -40.0f, 89.0f));
  const exploy_power_of_two_f32_t power = exploy_power_of_two_f32(parts.n);
  const exploy_power_of_two_f32_t inverse = exploy_power_of_two_f32(0u - parts.n);
  /* 2^n (1 - 2^-n + e): unlike 2^n itself, no part of this overflows before the result does */
  const float rest = 1.0f - inverse.first * inverse.second;
  return copysignf((rest + parts.e) * power.first * power.second, x);
}
