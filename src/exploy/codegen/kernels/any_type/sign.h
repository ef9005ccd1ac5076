/* -1, 0 or 1; NaN stays. */
static inline @TYPE@ exploy_sign_@SUFFIX@(@TYPE@ x)
{
  @TYPE@ result = x;
  if (x > 0) {
    result = (@TYPE@)1;
  } else if (x < 0) {
    result = (@TYPE@)-1;
  }
  return result;
}
