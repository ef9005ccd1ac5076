/* The negative, which wraps around. */
static inline @TYPE@ exploy_negate_@SUFFIX@(@TYPE@ x)
{
  return (@TYPE@)((@WIDE@)0 - (@WIDE@)x);
}
