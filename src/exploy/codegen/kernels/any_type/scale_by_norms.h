/* Elements along a dimension divided by the sum of their absolutes, or by the root of the sum of their squares; zeros
 * where that is zero. */
#include "magnitude_@SUFFIX@.h"
#include "root_@SUFFIX@.h"

static inline void exploy_scale_by_norms_@SUFFIX@(int32_t outer, int32_t size, int32_t inner, bool of_squares,
    const @TYPE@ *restrict x, @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < outer; i++) {
    for (int32_t j = 0; j < inner; j++) {
      const int32_t first = (i * size * inner) + j;
      @TYPE@ sum = 0;
      for (int32_t k = 0; k < size; k++) {
        const @TYPE@ element = x[first + (k * inner)];
        sum += of_squares ? (element * element) : exploy_magnitude_@SUFFIX@(element);
      }
      const @TYPE@ norm = of_squares ? exploy_root_@SUFFIX@(sum) : sum;
      for (int32_t k = 0; k < size; k++) {
        y[first + (k * inner)] = (norm == 0) ? (@TYPE@)0 : (x[first + (k * inner)] / norm);
      }
    }
  }
}
