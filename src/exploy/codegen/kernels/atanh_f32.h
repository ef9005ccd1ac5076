/* The inverse hyperbolic tangent of a float. */
#include "atanh_f64.h"

static inline float exploy_atanh_f32(float x)
{
  return (float)exploy_atanh_f64((double)x);
}
