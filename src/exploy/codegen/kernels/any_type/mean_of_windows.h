/* The sum of each window of each channel, divided by the number of its elements. */
static inline void exploy_mean_of_windows_@SUFFIX@(int32_t channels, int32_t channel_stride, int32_t window_count,
    int32_t tap_count, const @TYPE@ *restrict x, const int32_t *restrict windows, const int32_t *restrict taps,
    const @TYPE@ *restrict counts, @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < channels; i++) {
    for (int32_t p = 0; p < window_count; p++) {
      const @TYPE@ *const window = x + ((i * channel_stride) + windows[p]);
      @TYPE@ sum = 0;
      for (int32_t k = 0; k < tap_count; k++) {
        sum += window[taps[k]];
      }
      y[(i * window_count) + p] = sum / counts[p];
    }
  }
}
