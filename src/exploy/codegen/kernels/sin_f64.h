/* The sine of a double. */
#include "cosine_f64.h"
#include "quadrant_f64.h"
#include "sine_f64.h"

static inline double exploy_sin_f64(double x)
{
  double value = x; /* the sine of small numbers, and of zero with its sign */
  if (!(fabs(x) < (double)INFINITY)) {
    value = (double)NAN;
  } else if (fabs(x) > 0x1p-27) {
    const exploy_quadrant_f64_t part = exploy_quadrant_f64(x);
    value = (part.q & 1u) != 0u ? exploy_cosine_f64(part.r, part.low) : exploy_sine_f64(part.r, part.low);
    value = (part.q & 2u) != 0u ? -value : value;
  }
  return value;
}
