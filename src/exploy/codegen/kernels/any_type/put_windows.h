/* The results of four windows: their sums, 32 apart, and the bias of each channel. */
static inline void exploy_put_windows_@SUFFIX@(int32_t window_count, int32_t channels, const int32_t *restrict window,
    const @TYPE@ *restrict sums, const @TYPE@ *restrict bias, @TYPE@ *restrict y)
{
  for (int32_t j = 0; j < channels; j++) {
    @TYPE@ *const result = y + (j * window_count);
    for (int32_t i = 0; i < 4; i++) {
      result[window[i]] = bias[j] + sums[(i * 32) + j];
    }
  }
}
