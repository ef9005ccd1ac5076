/* The larger of a value and a bound; NaN stays. */
static inline @TYPE@ exploy_at_least_@SUFFIX@(@TYPE@ x, @TYPE@ bound)
{
  return (x < bound) ? bound : x;
}
