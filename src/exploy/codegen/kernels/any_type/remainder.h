#include "status.h"
/* The remainder with the sign of the dividend. A division by zero sets the status and gives 0. */
static inline @TYPE@ exploy_remainder_@SUFFIX@(@TYPE@ a, @TYPE@ b, int32_t *status)
{
  @TYPE@ result = 0;
  if (b == 0) {
    *status = EXPLOY_DIVISION_BY_ZERO;
  } else if (!(@IS_MINUS_ONE@)) { /* the lowest number divided by -1 is too large */
    result = (@TYPE@)(a % b);
  } else {
    result = 0;
  }
  return result;
}
