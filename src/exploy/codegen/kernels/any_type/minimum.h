/* The smaller of two values; NaN if one of them is NaN. */
static inline @TYPE@ exploy_minimum_@SUFFIX@(@TYPE@ a, @TYPE@ b)
{
  return ((a < b) || @IS_NAN_A@) ? a : b;
}
