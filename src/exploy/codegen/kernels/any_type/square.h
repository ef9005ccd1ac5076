/* The square. */
static inline @TYPE@ exploy_square_@SUFFIX@(@TYPE@ x)
{
  return x * x;
}
