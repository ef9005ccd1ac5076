/* 64 sums of products in the order of the taps: four windows times 16 channels; those of a window are 32 apart. */
static inline void exploy_window_tile_@SUFFIX@(int32_t tap_count, const int32_t *restrict taps,
    const @TYPE@ *restrict a, const @TYPE@ *restrict b, const @TYPE@ *restrict c, const @TYPE@ *restrict d,
    const @TYPE@ *restrict weights, @TYPE@ *restrict sums)
{
  @TYPE@ of_a[16] = {0}; /* sums that stay in registers, as long as all bounds are constant */
  @TYPE@ of_b[16] = {0};
  @TYPE@ of_c[16] = {0};
  @TYPE@ of_d[16] = {0};
  for (int32_t k = 0; k < tap_count; k++) {
    const @TYPE@ *const row = weights + (k * 16);
    const int32_t tap = taps[k];
    const @TYPE@ from_a = a[tap];
    const @TYPE@ from_b = b[tap];
    const @TYPE@ from_c = c[tap];
    const @TYPE@ from_d = d[tap];
    for (int32_t j = 0; j < 16; j++) {
      const @TYPE@ weight = row[j];
      of_a[j] += from_a * weight;
      of_b[j] += from_b * weight;
      of_c[j] += from_c * weight;
      of_d[j] += from_d * weight;
    }
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[j] = of_a[j];
    sums[32 + j] = of_b[j];
    sums[64 + j] = of_c[j];
    sums[96 + j] = of_d[j];
  }
}
