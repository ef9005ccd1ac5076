/* x^y of floats, with the special cases of C. */
#include "pow_f64.h"

static inline float exploy_pow_f32(float x, float y)
{
  return (float)exploy_pow_f64((double)x, (double)y);
}
