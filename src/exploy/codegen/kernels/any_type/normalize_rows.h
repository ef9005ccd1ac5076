/* Rows without their mean, divided by their standard deviation, with both. */
#include "root_@SUFFIX@.h"
#include "row_sum_@SUFFIX@.h"

static inline void exploy_normalize_rows_@SUFFIX@(int32_t rows, int32_t size, @TYPE@ epsilon,
    const @TYPE@ *restrict x, @TYPE@ *restrict y, @TYPE@ *restrict means, @TYPE@ *restrict scales)
{
  const @TYPE@ count = (@TYPE@)size;
  for (int32_t i = 0; i < rows; i++) {
    const @TYPE@ *const row = x + (i * size);
    @TYPE@ *const result = y + (i * size);
    const @TYPE@ mean = exploy_row_sum_@SUFFIX@(size, row) / count;
    for (int32_t j = 0; j < size; j++) {
      result[j] = (row[j] - mean) * (row[j] - mean);
    }
    const @TYPE@ variance = exploy_row_sum_@SUFFIX@(size, result) / count;
    const @TYPE@ scale = (@TYPE@)1 / exploy_root_@SUFFIX@(variance + epsilon);
    for (int32_t j = 0; j < size; j++) {
      result[j] = (row[j] - mean) * scale;
    }
    means[i] = mean;
    scales[i] = scale;
  }
}
