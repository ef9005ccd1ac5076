/* Bits shifted towards lower ones; nothing remains beyond the width. */
static inline @TYPE@ exploy_shift_right_@SUFFIX@(@TYPE@ x, @TYPE@ places)
{
  return (places < (8u * sizeof(@TYPE@))) ? (@TYPE@)((@WIDE@)x >> places) : (@TYPE@)0;
}
