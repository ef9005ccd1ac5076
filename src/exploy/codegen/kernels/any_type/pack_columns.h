/* Copy a matrix into panels of `width` columns. The last one has `last_width`, filled up with zeros. */
#include "least_index.h"

static inline void exploy_pack_columns_@SUFFIX@(int32_t inner, int32_t columns, int32_t width, int32_t last_width,
    const @TYPE@ *restrict matrix, int32_t row_stride, int32_t column_stride, @TYPE@ *restrict panels)
{
  @TYPE@ *place = panels;
  for (int32_t n = 0; n < columns; n += width) {
    const int32_t count = exploy_least_index(width, columns - n);
    const int32_t filled = (count < width) ? last_width : width;
    for (int32_t k = 0; k < inner; k++) {
      const @TYPE@ *const row = matrix + ((k * row_stride) + (n * column_stride));
      for (int32_t j = 0; j < count; j++) {
        place[j] = row[j * column_stride];
      }
      for (int32_t j = count; j < filled; j++) {
        place[j] = (@TYPE@)0;
      }
      place += filled;
    }
  }
}
