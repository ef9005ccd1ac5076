/* 128 sums of products in the order of the taps: four windows times 32 channels, in two panels `stride` apart. Where
 * registers are fewer or shorter than those of AVX-512, `window_tile` is faster; the sums are the same. */
#if defined(__AVX512F__)
static inline void exploy_wide_window_tile_@SUFFIX@(int32_t tap_count, const int32_t *restrict taps,
    const @TYPE@ *restrict a, const @TYPE@ *restrict b, const @TYPE@ *restrict c, const @TYPE@ *restrict d,
    const @TYPE@ *restrict weights, int32_t stride, @TYPE@ *restrict sums)
{
  @TYPE@ a_low[16] = {0}; /* sums that stay in registers, as long as all bounds are constant */
  @TYPE@ a_high[16] = {0};
  @TYPE@ b_low[16] = {0};
  @TYPE@ b_high[16] = {0};
  @TYPE@ c_low[16] = {0};
  @TYPE@ c_high[16] = {0};
  @TYPE@ d_low[16] = {0};
  @TYPE@ d_high[16] = {0};
  for (int32_t k = 0; k < tap_count; k++) {
    const @TYPE@ *const low = weights + (k * 16);
    const @TYPE@ *const high = low + stride;
    const int32_t tap = taps[k];
    const @TYPE@ from_a = a[tap];
    const @TYPE@ from_b = b[tap];
    const @TYPE@ from_c = c[tap];
    const @TYPE@ from_d = d[tap];
    for (int32_t j = 0; j < 16; j++) {
      const @TYPE@ weight = low[j];
      const @TYPE@ other = high[j];
      a_low[j] += from_a * weight;
      a_high[j] += from_a * other;
      b_low[j] += from_b * weight;
      b_high[j] += from_b * other;
      c_low[j] += from_c * weight;
      c_high[j] += from_c * other;
      d_low[j] += from_d * weight;
      d_high[j] += from_d * other;
    }
  }
  /* loops of their own, or gcc keeps the sums in memory */
  for (int32_t j = 0; j < 16; j++) {
    sums[j] = a_low[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[16 + j] = a_high[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[32 + j] = b_low[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[48 + j] = b_high[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[64 + j] = c_low[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[80 + j] = c_high[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[96 + j] = d_low[j];
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[112 + j] = d_high[j];
  }
}
#endif
