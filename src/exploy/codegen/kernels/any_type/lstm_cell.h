/* The new state of an LSTM cell from its gates: input, output, forget, candidate. */
#include "sigmoid_@SUFFIX@.h"
#include "tanh_@SUFFIX@.h"

static inline void exploy_lstm_cell_@SUFFIX@(int32_t hidden, const @TYPE@ *restrict gates, @TYPE@ *restrict h,
    @TYPE@ *restrict c)
{
  for (int32_t j = 0; j < hidden; j++) {
    const @TYPE@ input = exploy_sigmoid_@SUFFIX@(gates[j]);
    const @TYPE@ output = exploy_sigmoid_@SUFFIX@(gates[hidden + j]);
    const @TYPE@ forget = exploy_sigmoid_@SUFFIX@(gates[(2 * hidden) + j]);
    const @TYPE@ candidate = exploy_tanh_@SUFFIX@(gates[(3 * hidden) + j]);
    c[j] = (forget * c[j]) + (input * candidate);
    h[j] = output * exploy_tanh_@SUFFIX@(c[j]);
  }
}
