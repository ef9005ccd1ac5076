/* The cosine of a float. */
#include "cosine_f32.h"
#include "quadrant_f32.h"
#include "sine_f32.h"

static inline float exploy_cos_f32(float x)
{
  float value = NAN;
  if (fabsf(x) < INFINITY) {
    const exploy_quadrant_f32_t part = exploy_quadrant_f32(x);
    value = (part.q & 1u) != 0u ? exploy_sine_f32(part.r, part.low) : exploy_cosine_f32(part.r, part.low);
    value = ((part.q + 1u) & 2u) != 0u ? -value : value;
  }
  return value;
}
