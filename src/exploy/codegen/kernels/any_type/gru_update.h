/* The new state of a GRU cell from its update gate and the sum of its candidate. */
#include "tanh_@SUFFIX@.h"

static inline void exploy_gru_update_@SUFFIX@(int32_t hidden, const @TYPE@ *restrict update,
    const @TYPE@ *restrict sum, @TYPE@ *restrict h)
{
  for (int32_t j = 0; j < hidden; j++) {
    h[j] = ((1 - update[j]) * exploy_tanh_@SUFFIX@(sum[j])) + (update[j] * h[j]);
  }
}
