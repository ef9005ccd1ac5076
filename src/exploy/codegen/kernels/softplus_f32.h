/* log(1 + e^x) of a float. */
#include "exp_f32.h"
#include "log1p_f32.h"
#include "select_f32.h"

static inline float exploy_softplus_f32(float x)
{
  return exploy_select_f32(x > 0.0f, x, 0.0f) + exploy_log1p_f32(exploy_exp_f32(-fabsf(x)));
}
