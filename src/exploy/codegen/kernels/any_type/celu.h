#include "expm1_@SUFFIX@.h"
/* The exponential linear unit whose slope is 1 at zero from both sides. */
static inline @TYPE@ exploy_celu_@SUFFIX@(@TYPE@ x, @TYPE@ alpha)
{
  const @TYPE@ below = alpha * exploy_expm1_@SUFFIX@(x / alpha);
  return (x > (@TYPE@)0) ? x : below;
}
