#include "hard_sigmoid_@SUFFIX@.h"
/* A number times its hard sigmoid. */
static inline @TYPE@ exploy_hard_swish_@SUFFIX@(@TYPE@ x)
{
  return x * exploy_hard_sigmoid_@SUFFIX@(x, (@TYPE@)1 / (@TYPE@)6, (@TYPE@)0.5);
}
