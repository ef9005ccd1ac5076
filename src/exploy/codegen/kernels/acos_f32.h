/* The arccosine of a float. */
#include "acos_f64.h"

static inline float exploy_acos_f32(float x)
{
  return (float)exploy_acos_f64((double)x);
}
