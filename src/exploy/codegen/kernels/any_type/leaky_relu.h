/* A number, or that times a slope if it is below zero. */
static inline @TYPE@ exploy_leaky_relu_@SUFFIX@(@TYPE@ x, @TYPE@ slope)
{
  return (x < (@TYPE@)0) ? (slope * x) : x;
}
