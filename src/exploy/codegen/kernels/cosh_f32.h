/* The hyperbolic cosine of a float. */
#include "cosh_f64.h"

static inline float exploy_cosh_f32(float x)
{
  return (float)exploy_cosh_f64((double)x);
}
