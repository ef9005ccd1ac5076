/* The inverse hyperbolic cosine of a float. */
#include "acosh_f64.h"

static inline float exploy_acosh_f32(float x)
{
  return (float)exploy_acosh_f64((double)x);
}
