#include "tanh_@SUFFIX@.h"
/* The Gaussian error linear unit, by a hyperbolic tangent: sqrt(2 / pi) * (x + 0.044715 * x^3). */
static inline @TYPE@ exploy_gelu_tanh_@SUFFIX@(@TYPE@ x)
{
  const @TYPE@ inner = (@TYPE@)0.7978845608028654 * (x + ((@TYPE@)0.044715 * ((x * x) * x)));
  return ((@TYPE@)0.5 * x) * ((@TYPE@)1 + exploy_tanh_@SUFFIX@(inner));
}
