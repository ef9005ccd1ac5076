/* Logarithms of the exponentials of adjacent elements, divided by their sum. */
#include "exp_@SUFFIX@.h"
#include "log_@SUFFIX@.h"
#include "row_largest_@SUFFIX@.h"
#include "row_sum_@SUFFIX@.h"

static inline void exploy_log_softmax_row_@SUFFIX@(int32_t size, const @TYPE@ *restrict x, @TYPE@ *restrict y)
{
  const @TYPE@ largest = exploy_row_largest_@SUFFIX@(size, x);
  for (int32_t i = 0; i < size; i++) {
    y[i] = exploy_exp_@SUFFIX@(x[i] - largest);
  }
  const @TYPE@ sum = exploy_log_@SUFFIX@(exploy_row_sum_@SUFFIX@(size, y));
  for (int32_t i = 0; i < size; i++) {
    y[i] = (x[i] - largest) - sum;
  }
}
