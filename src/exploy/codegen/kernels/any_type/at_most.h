/* The smaller of a value and a bound; NaN stays. */
static inline @TYPE@ exploy_at_most_@SUFFIX@(@TYPE@ x, @TYPE@ bound)
{
  return (x > bound) ? bound : x;
}
