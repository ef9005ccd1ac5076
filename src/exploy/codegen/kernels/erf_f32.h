/* The error function of a float. */
#include "clamp_f32.h"
#include "exp_f32.h"
#include "select_f32.h"

static inline float exploy_erf_f32(float x)
{
  const float a = exploy_clamp_f32(fabsf(x), 0.0f, 4.0f); /* from 4 on, the result is 1 */
  const float square = a * a;
  float p = -0x1.42d434p-11f; /* erf(a) / a - 1, up to 0.9 */
  p = p * square + 0x1.49663ep-8f;
  p = p * square - 0x1.b6ec5ep-6f;
  p = p * square + 0x1.ce217cp-4f;
  p = p * square - 0x1.812716p-2f;
  p = p * square + 0x1.06eba8p-3f;
  float q = -0x1.63536ep-16f; /* log(1 - erf(a)), from 0.9 to 4 */
  q = q * a + 0x1.c865d6p-12f;
  q = q * a - 0x1.118d2p-8f;
  q = q * a + 0x1.9ba6b6p-6f;
  q = q * a - 0x1.bb89f8p-4f;
  q = q * a - 0x1.4445b6p-1f;
  q = q * a - 0x1.2127e4p+0f;
  q = q * a + 0x1.6dd2ecp-13f;
  return copysignf(exploy_select_f32(a < 0.9f, a + a * p, 1.0f - exploy_exp_f32(q)), x);
}
