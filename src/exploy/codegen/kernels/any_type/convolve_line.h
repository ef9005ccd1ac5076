/* One channel of a convolution whose windows are next to each other: 64 at once, of which the last ones may have been
 * computed already. */
static inline void exploy_convolve_line_@SUFFIX@(int32_t width, int32_t tap_count, const @TYPE@ *restrict x,
    const int32_t *restrict taps, const @TYPE@ *restrict weights, @TYPE@ bias, @TYPE@ *restrict y)
{
  for (int32_t first = 0; first < width; first += 64) {
    const int32_t start = ((first + 64) <= width) ? first : (width - 64);
    @TYPE@ low[32] = {0}; /* sums that stay in registers, as long as all bounds are constant */
    @TYPE@ high[32] = {0};
    for (int32_t k = 0; k < tap_count; k++) {
      const @TYPE@ *const source = x + (start + taps[k]);
      const @TYPE@ weight = weights[k];
      for (int32_t j = 0; j < 32; j++) {
        low[j] += source[j] * weight;
      }
      for (int32_t j = 0; j < 32; j++) { /* a second loop, or gcc joins two elements of a window instead of vectorising */
        high[j] += source[32 + j] * weight;
      }
    }
    for (int32_t j = 0; j < 32; j++) {
      y[start + j] = bias + low[j];
      y[start + 32 + j] = bias + high[j];
    }
  }
}
