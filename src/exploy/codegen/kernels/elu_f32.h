/* x if it is above zero, else alpha (e^x - 1), of floats. */
#include "expm1_f32.h"
#include "select_f32.h"

static inline float exploy_elu_f32(float x, float alpha)
{
  const float above = exploy_select_f32(x > 0.0f, x, -0.0f); /* adding -0 changes no number */
  const float below = exploy_select_f32(x > 0.0f, 0.0f, x);
  return above + alpha * exploy_expm1_f32(below);
}
