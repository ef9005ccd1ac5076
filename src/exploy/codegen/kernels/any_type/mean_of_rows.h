/* The mean of each row. */
#include "row_sum_@SUFFIX@.h"

static inline void exploy_mean_of_rows_@SUFFIX@(int32_t rows, int32_t size, const @TYPE@ *restrict x,
    @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < rows; i++) {
    y[i] = exploy_row_sum_@SUFFIX@(size, x + (i * size)) / (@TYPE@)size;
  }
}
