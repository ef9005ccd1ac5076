/* The largest element of each row; NaN if there is one. */
#include "maximum_@SUFFIX@.h"

static inline void exploy_largest_of_rows_@SUFFIX@(int32_t rows, int32_t size, const @TYPE@ *restrict x,
    @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < rows; i++) {
    @TYPE@ largest = x[i * size];
    for (int32_t j = 1; j < size; j++) {
      largest = exploy_maximum_@SUFFIX@(largest, x[(i * size) + j]);
    }
    y[i] = largest;
  }
}
