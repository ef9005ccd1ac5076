#include "status.h"
/* An index from the front; negative ones count from the end. Others set the status and give 0. */
static inline int32_t exploy_position(int64_t index, int32_t size, int32_t *status)
{
  const int64_t found = (index < 0) ? (index + size) : index;
  int32_t result = 0;
  if ((found < 0) || (found >= size)) {
    *status = EXPLOY_INDEX_OUT_OF_RANGE;
  } else {
    result = (int32_t)found;
  }
  return result;
}
