/* A vector times a matrix: sums that begin with `start`. The weights are in panels of 64 outputs, one behind the other;
 * the last one has 8, 16, 32 or 64, with zeros where there are no outputs. */
#include "panel_16_@SUFFIX@.h"
#include "panel_32_@SUFFIX@.h"
#include "panel_64_@SUFFIX@.h"
#include "panel_8_@SUFFIX@.h"

static inline void exploy_multiply_vector_@SUFFIX@(int32_t inner, int32_t columns, const @TYPE@ *restrict x,
    const @TYPE@ *restrict weights, const @TYPE@ *restrict start, @TYPE@ *restrict y)
{
  const int32_t rest = columns % 64;
  const int32_t whole = columns - rest;
  for (int32_t j = 0; j < whole; j += 64) {
    exploy_panel_64_@SUFFIX@(inner, x, weights + (j * inner), start + j, y + j);
  }
  if (rest > 0) {
    const @TYPE@ *const last = weights + (whole * inner);
    @TYPE@ first[64] = {0};
    @TYPE@ sums[64];
    for (int32_t j = 0; j < rest; j++) {
      first[j] = start[whole + j];
    }
    if (rest <= 8) {
      exploy_panel_8_@SUFFIX@(inner, x, last, first, sums);
    } else if (rest <= 16) {
      exploy_panel_16_@SUFFIX@(inner, x, last, first, sums);
    } else if (rest <= 32) {
      exploy_panel_32_@SUFFIX@(inner, x, last, first, sums);
    } else {
      exploy_panel_64_@SUFFIX@(inner, x, last, first, sums);
    }
    for (int32_t j = 0; j < rest; j++) {
      y[whole + j] = sums[j];
    }
  }
}
