/* 64 sums, one for each output of a panel of weights, in the order of the inputs. */
static inline void exploy_panel_64_@SUFFIX@(int32_t inner, const @TYPE@ *restrict x, const @TYPE@ *restrict weights,
    const @TYPE@ *restrict start, @TYPE@ *restrict y)
{
  @TYPE@ sums[64];
  for (int32_t j = 0; j < 64; j++) {
    sums[j] = start[j];
  }
  for (int32_t k = 0; k < inner; k++) {
    const @TYPE@ factor = x[k];
    for (int32_t j = 0; j < 64; j++) {
      sums[j] += factor * weights[(k * 64) + j];
    }
  }
  for (int32_t j = 0; j < 64; j++) {
    y[j] = sums[j];
  }
}
