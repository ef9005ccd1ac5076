/* The arcsine of a float. */
#include "asin_f64.h"

static inline float exploy_asin_f32(float x)
{
  return (float)exploy_asin_f64((double)x);
}
