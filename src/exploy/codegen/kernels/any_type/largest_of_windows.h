/* The largest element of each window of each channel; NaN if there is one. */
#include "maximum_@SUFFIX@.h"

static inline void exploy_largest_of_windows_@SUFFIX@(int32_t channels, int32_t channel_stride, int32_t window_count,
    int32_t tap_count, const @TYPE@ *restrict x, const int32_t *restrict windows, const int32_t *restrict taps,
    @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < channels; i++) {
    for (int32_t p = 0; p < window_count; p++) {
      const @TYPE@ *const window = x + ((i * channel_stride) + windows[p]);
      @TYPE@ largest = window[taps[0]];
      for (int32_t k = 1; k < tap_count; k++) {
        largest = exploy_maximum_@SUFFIX@(largest, window[taps[k]]);
      }
      y[(i * window_count) + p] = largest;
    }
  }
}
