/* A matrix of integers times another one, whose elements are at strides. The sums wrap around. */
#include "add_@SUFFIX@.h"
#include "multiply_@SUFFIX@.h"

static inline void exploy_multiply_integers_@SUFFIX@(int32_t rows, int32_t inner, int32_t columns,
    const @TYPE@ *restrict x, const @TYPE@ *restrict matrix, int32_t row_stride, int32_t column_stride,
    @TYPE@ *restrict y)
{
  for (int32_t m = 0; m < rows; m++) {
    for (int32_t n = 0; n < columns; n++) {
      @TYPE@ sum = 0;
      for (int32_t k = 0; k < inner; k++) {
        const @TYPE@ weight = matrix[(k * row_stride) + (n * column_stride)];
        sum = exploy_add_@SUFFIX@(sum, exploy_multiply_@SUFFIX@(x[(m * inner) + k], weight));
      }
      y[(m * columns) + n] = sum;
    }
  }
}
