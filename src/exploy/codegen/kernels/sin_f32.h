/* The sine of a float. */
#include "cosine_f32.h"
#include "quadrant_f32.h"
#include "sine_f32.h"

static inline float exploy_sin_f32(float x)
{
  float value = x; /* the sine of small numbers, and of zero with its sign */
  if (!(fabsf(x) < INFINITY)) {
    value = NAN;
  } else if (fabsf(x) > 0x1p-12f) {
    const exploy_quadrant_f32_t part = exploy_quadrant_f32(x);
    value = (part.q & 1u) != 0u ? exploy_cosine_f32(part.r, part.low) : exploy_sine_f32(part.r, part.low);
    value = (part.q & 2u) != 0u ? -value : value;
  }
  return value;
}
