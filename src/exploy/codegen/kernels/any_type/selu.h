#include "elu_@SUFFIX@.h"
/* The scaled exponential linear unit. */
static inline @TYPE@ exploy_selu_@SUFFIX@(@TYPE@ x, @TYPE@ alpha, @TYPE@ scale)
{
  return scale * exploy_elu_@SUFFIX@(x, alpha);
}
