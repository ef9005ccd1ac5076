#include "at_least_@SUFFIX@.h"
#include "at_most_@SUFFIX@.h"
/* A line from 0 to 1, and these beyond it; NaN stays. */
static inline @TYPE@ exploy_hard_sigmoid_@SUFFIX@(@TYPE@ x, @TYPE@ slope, @TYPE@ offset)
{
  return exploy_at_most_@SUFFIX@(exploy_at_least_@SUFFIX@((slope * x) + offset, (@TYPE@)0), (@TYPE@)1);
}
