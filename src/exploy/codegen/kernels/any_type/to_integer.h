#include "status.h"
/* A number without its fraction. NaN and what the integer cannot hold set the status, and give 0 or the nearest. */
static inline @INTEGER@ exploy_to_@INTEGER_SUFFIX@_@SUFFIX@(@TYPE@ x, int32_t *status)
{
  @INTEGER@ result = 0;
  if ((x > @BELOW@) && (x < @ABOVE@)) {
    result = (@INTEGER@)x;
  } else {
    *status = EXPLOY_BAD_CONVERSION;
    if (x >= @ABOVE@) {
      result = @LARGEST@;
    } else if (x <= @BELOW@) {
      result = @LOWEST@;
    } else {
      result = 0;
    }
  }
  return result;
}
