#include "status.h"
/* The quotient, rounded towards zero. A division by zero sets the status and gives 0. */
static inline @TYPE@ exploy_divide_@SUFFIX@(@TYPE@ a, @TYPE@ b, int32_t *status)
{
  @TYPE@ result = 0;
  if (b == 0) {
    *status = EXPLOY_DIVISION_BY_ZERO;
  } else if (@IS_MINUS_ONE@) {
    result = (@TYPE@)((@WIDE@)0 - (@WIDE@)a); /* the lowest number has no positive one */
  } else {
    result = (@TYPE@)(a / b);
  }
  return result;
}
