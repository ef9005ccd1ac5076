/* The hyperbolic sine of a float. */
#include "sinh_f64.h"

static inline float exploy_sinh_f32(float x)
{
  return (float)exploy_sinh_f64((double)x);
}
