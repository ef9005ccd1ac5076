#include "remainder_@SUFFIX@.h"
/* The remainder with the sign of the divisor. A division by zero sets the status and gives 0. */
static inline @TYPE@ exploy_floor_mod_@SUFFIX@(@TYPE@ a, @TYPE@ b, int32_t *status)
{
  const @TYPE@ rest = exploy_remainder_@SUFFIX@(a, b, status);
  return ((rest != 0) && ((rest < 0) != (b < 0))) ? (@TYPE@)(rest + b) : rest;
}
