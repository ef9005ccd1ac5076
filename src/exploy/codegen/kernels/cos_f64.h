/* The cosine of a double. */
#include "cosine_f64.h"
#include "quadrant_f64.h"
#include "sine_f64.h"

static inline double exploy_cos_f64(double x)
{
  double value = (double)NAN;
  if (fabs(x) < (double)INFINITY) {
    const exploy_quadrant_f64_t part = exploy_quadrant_f64(x);
    value = (part.q & 1u) != 0u ? exploy_sine_f64(part.r, part.low) : exploy_cosine_f64(part.r, part.low);
    value = ((part.q + 1u) & 2u) != 0u ? -value : value;
  }
  return value;
}
