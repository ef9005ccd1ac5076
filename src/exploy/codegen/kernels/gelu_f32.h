/* x / 2 (1 + erf(x / sqrt(2))) of a float, computed in this way: NaN for -inf, and below -3 few digits are right. */
#include "erf_f32.h"

static inline float exploy_gelu_f32(float x)
{
  return 0.5f * x * (1.0f + exploy_erf_f32(x * 0x1.6a09e6p-1f));
}
