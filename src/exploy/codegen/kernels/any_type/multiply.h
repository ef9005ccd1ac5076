/* The product, which wraps around: computed without a sign, for that is defined in C. */
static inline @TYPE@ exploy_multiply_@SUFFIX@(@TYPE@ a, @TYPE@ b)
{
  return (@TYPE@)((@WIDE@)a * (@WIDE@)b);
}
