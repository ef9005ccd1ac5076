/* The hyperbolic tangent of a float. */
#include "clamp_f32.h"
#include "expm1_f32.h"

static inline float exploy_tanh_f32(float x)
{
  const float e = exploy_expm1_f32(2.0f * exploy_clamp_f32(fabsf(x), 0.0f, 10.0f)); /* from 10 on, the result is 1 */
  return copysignf(e / (e + 2.0f), x);
}
