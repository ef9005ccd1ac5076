/* The tangent of a float. */
#include "tan_f64.h"

static inline float exploy_tan_f32(float x)
{
  return (float)exploy_tan_f64((double)x);
}
