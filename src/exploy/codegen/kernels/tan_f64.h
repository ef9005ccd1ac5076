/* The tangent of a double. */
#include "cosine_f64.h"
#include "quadrant_f64.h"
#include "sine_f64.h"

static inline double exploy_tan_f64(double x)
{
  double value = x; /* the tangent of small numbers, and of zero with its sign */
  if (!(fabs(x) < (double)INFINITY)) {
    value = (double)NAN;
  } else if (fabs(x) > 0x1p-27) {
    const exploy_quadrant_f64_t part = exploy_quadrant_f64(x);
    const double sine = exploy_sine_f64(part.r, part.low);
    const double cosine = exploy_cosine_f64(part.r, part.low);
    value = (part.q & 1u) != 0u ? -cosine / sine : sine / cosine;
  }
  return value;
}
