/* The difference, which wraps around: computed without a sign, for that is defined in C. */
static inline @TYPE@ exploy_subtract_@SUFFIX@(@TYPE@ a, @TYPE@ b)
{
  return (@TYPE@)((@WIDE@)a - (@WIDE@)b);
}
