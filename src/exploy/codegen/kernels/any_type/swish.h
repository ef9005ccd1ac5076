#include "sigmoid_@SUFFIX@.h"
/* A number times its sigmoid. */
static inline @TYPE@ exploy_swish_@SUFFIX@(@TYPE@ x, @TYPE@ slope)
{
  return x * exploy_sigmoid_@SUFFIX@(slope * x);
}
