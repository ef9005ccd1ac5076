/* The absolute value; that of the lowest number is this number again, as in torch. */
static inline @TYPE@ exploy_abs_@SUFFIX@(@TYPE@ x)
{
  return (x < 0) ? (@TYPE@)((@WIDE@)0 - (@WIDE@)x) : x;
}
