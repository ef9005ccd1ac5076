#include "softplus_@SUFFIX@.h"
#include "tanh_@SUFFIX@.h"
/* A number times the hyperbolic tangent of its softplus. */
static inline @TYPE@ exploy_mish_@SUFFIX@(@TYPE@ x)
{
  return x * exploy_tanh_@SUFFIX@(exploy_softplus_@SUFFIX@(x));
}
