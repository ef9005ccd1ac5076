/* The new state of a cell that has nothing but a hyperbolic tangent. */
#include "tanh_@SUFFIX@.h"

static inline void exploy_rnn_cell_@SUFFIX@(int32_t hidden, const @TYPE@ *restrict sum, @TYPE@ *restrict h)
{
  for (int32_t j = 0; j < hidden; j++) {
    h[j] = exploy_tanh_@SUFFIX@(sum[j]);
  }
}
