/* Rows divided by the root of the mean of their squares. */
#include "root_@SUFFIX@.h"
#include "row_sum_@SUFFIX@.h"

static inline void exploy_scale_rows_@SUFFIX@(int32_t rows, int32_t size, @TYPE@ epsilon, const @TYPE@ *restrict x,
    @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < rows; i++) {
    const @TYPE@ *const row = x + (i * size);
    @TYPE@ *const result = y + (i * size);
    for (int32_t j = 0; j < size; j++) {
      result[j] = row[j] * row[j];
    }
    const @TYPE@ mean = exploy_row_sum_@SUFFIX@(size, result) / (@TYPE@)size;
    const @TYPE@ scale = (@TYPE@)1 / exploy_root_@SUFFIX@(mean + epsilon);
    for (int32_t j = 0; j < size; j++) {
      result[j] = row[j] * scale;
    }
  }
}
