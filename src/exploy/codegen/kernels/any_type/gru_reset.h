/* The gates of a GRU cell whose reset gate is applied before the product: the update gate in place, and the state times
 * the reset gate. */
#include "sigmoid_@SUFFIX@.h"

static inline void exploy_gru_reset_@SUFFIX@(int32_t hidden, @TYPE@ *restrict gates, const @TYPE@ *restrict h,
    @TYPE@ *restrict remembered)
{
  for (int32_t j = 0; j < hidden; j++) {
    gates[j] = exploy_sigmoid_@SUFFIX@(gates[j]);
    remembered[j] = exploy_sigmoid_@SUFFIX@(gates[hidden + j]) * h[j];
  }
}
