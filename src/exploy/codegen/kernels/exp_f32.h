/* e^x of a float. Underflow is gradual. */
#include "clamp_f32.h"
#include "exp_parts_f32.h"
#include "power_of_two_f32.h"

static inline float exploy_exp_f32(float x)
{
  const exploy_exp_parts_f32_t parts = exploy_exp_parts_f32(exploy_clamp_f32(x, -104.0f, 89.0f));
  const exploy_power_of_two_f32_t power = exploy_power_of_two_f32(parts.n);
  return (1.0f + parts.e) * power.first * power.second;
}
