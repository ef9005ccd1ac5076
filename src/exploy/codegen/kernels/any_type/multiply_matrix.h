/* A matrix times a matrix: sums that begin with `start`, whose rows are `start_stride` apart. The weights are in panels
 * of 16 columns, `panel_stride` apart, and the rows in them are `row_stride` apart. Four rows are computed at once; the
 * last of them again where fewer are left. */
#include "least_index.h"
#include "tile_4_by_16_@SUFFIX@.h"

static inline void exploy_multiply_matrix_@SUFFIX@(int32_t rows, int32_t inner, int32_t columns,
    const @TYPE@ *restrict x, const @TYPE@ *restrict weights, int32_t panel_stride, int32_t row_stride,
    const @TYPE@ *restrict start, int32_t start_stride, @TYPE@ *restrict y)
{
  for (int32_t n = 0; n < columns; n += 16) {
    const @TYPE@ *const panel = weights + ((n / 16) * panel_stride);
    const int32_t width = exploy_least_index(16, columns - n);
    for (int32_t m = 0; m < rows; m += 4) {
      @TYPE@ sums[64] = {0};
      int32_t row[4];
      for (int32_t i = 0; i < 4; i++) {
        row[i] = exploy_least_index(m + i, rows - 1);
        for (int32_t j = 0; j < width; j++) {
          sums[(i * 16) + j] = start[(row[i] * start_stride) + n + j];
        }
      }
      exploy_tile_4_by_16_@SUFFIX@(inner, x + (row[0] * inner), x + (row[1] * inner), x + (row[2] * inner),
          x + (row[3] * inner), row_stride, panel, sums);
      for (int32_t i = 0; i < 4; i++) {
        for (int32_t j = 0; j < width; j++) {
          y[(row[i] * columns) + n + j] = sums[(i * 16) + j];
        }
      }
    }
  }
}
