/* Bits shifted towards higher ones; nothing remains beyond the width. */
static inline @TYPE@ exploy_shift_left_@SUFFIX@(@TYPE@ x, @TYPE@ places)
{
  return (places < (8u * sizeof(@TYPE@))) ? (@TYPE@)((@WIDE@)x << places) : (@TYPE@)0;
}
