/* A number above a threshold, and zero below. */
static inline @TYPE@ exploy_thresholded_relu_@SUFFIX@(@TYPE@ x, @TYPE@ threshold)
{
  return (x > threshold) ? x : (@TYPE@)0;
}
