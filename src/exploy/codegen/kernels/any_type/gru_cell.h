/* The new state of a GRU cell whose reset gate is applied after the product: update, reset, candidate, each as the part
 * of the input and the part of the state. */
#include "sigmoid_@SUFFIX@.h"
#include "tanh_@SUFFIX@.h"

static inline void exploy_gru_cell_@SUFFIX@(int32_t hidden, const @TYPE@ *restrict of_input,
    const @TYPE@ *restrict of_state, @TYPE@ *restrict h)
{
  for (int32_t j = 0; j < hidden; j++) {
    const @TYPE@ update = exploy_sigmoid_@SUFFIX@(of_input[j] + of_state[j]);
    const @TYPE@ reset = exploy_sigmoid_@SUFFIX@(of_input[hidden + j] + of_state[hidden + j]);
    const @TYPE@ sum = of_input[(2 * hidden) + j] + (reset * of_state[(2 * hidden) + j]);
    h[j] = ((1 - update) * exploy_tanh_@SUFFIX@(sum)) + (update * h[j]);
  }
}
