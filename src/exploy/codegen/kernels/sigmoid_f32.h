/* 1 / (1 + e^-x) of a float. Underflow is gradual. */
#include "exp_f32.h"
#include "select_f32.h"

static inline float exploy_sigmoid_f32(float x)
{
  const float e = exploy_exp_f32(-fabsf(x));
  return exploy_select_f32(x < 0.0f, e, 1.0f) / (1.0f + e);
}
