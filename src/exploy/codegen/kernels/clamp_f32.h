/* A float, but at least `low` and at most `high`. NaN stays. */
#include "select_f32.h"

static inline float exploy_clamp_f32(float x, float low, float high)
{
  return exploy_select_f32(x < low, low, exploy_select_f32(x > high, high, x));
}
