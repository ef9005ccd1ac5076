/* The arctangent of a float. */
#include "atan_f64.h"

static inline float exploy_atan_f32(float x)
{
  return (float)exploy_atan_f64((double)x);
}
