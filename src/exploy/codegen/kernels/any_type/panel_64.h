/* 64 outputs of a panel of weights: for each, the sum of its products in the order of the inputs, added to `start`. */
static inline void exploy_panel_64_@SUFFIX@(int32_t inner, const @TYPE@ *restrict x, const @TYPE@ *restrict weights,
    const @TYPE@ *restrict start, @TYPE@ *restrict y)
{
  @TYPE@ low[32] = {0}; /* sums that stay in registers, as long as all bounds are constant */
  @TYPE@ high[32] = {0};
  for (int32_t k = 0; k < inner; k++) {
    const @TYPE@ *const row = weights + (k * 64);
    const @TYPE@ factor = x[k];
    for (int32_t j = 0; j < 32; j++) {
      low[j] += factor * row[j];
      high[j] += factor * row[32 + j];
    }
  }
  for (int32_t j = 0; j < 32; j++) {
    y[j] = start[j] + low[j];
    y[32 + j] = start[32 + j] + high[j];
  }
}
