/* The inverse hyperbolic sine of a float. */
#include "asinh_f64.h"

static inline float exploy_asinh_f32(float x)
{
  return (float)exploy_asinh_f64((double)x);
}
