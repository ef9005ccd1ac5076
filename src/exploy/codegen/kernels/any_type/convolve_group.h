/* The channels of one group of a convolution. Element `taps[k]` after the first one of a window, `windows[p]`, has the
 * weight k; the weights are in panels of 16 channels. Four windows are computed at once; the last of them again where
 * fewer are left. */
#include "channels_at_once.h"
#include "least_index.h"
#include "put_windows_@SUFFIX@.h"
#include "window_sums_@SUFFIX@.h"

static inline void exploy_convolve_group_@SUFFIX@(int32_t window_count, int32_t tap_count, int32_t channels,
    const @TYPE@ *restrict x, const int32_t *restrict windows, const int32_t *restrict taps,
    const @TYPE@ *restrict weights, const @TYPE@ *restrict bias, @TYPE@ *restrict y)
{
  for (int32_t n = 0; n < channels; n += exploy_channels_at_once) {
    const @TYPE@ *const panel = weights + (n * tap_count);
    const int32_t width = exploy_least_index(exploy_channels_at_once, channels - n);
    for (int32_t p = 0; p < window_count; p += 4) {
      @TYPE@ sums[128];
      int32_t window[4];
      for (int32_t i = 0; i < 4; i++) {
        window[i] = exploy_least_index(p + i, window_count - 1);
      }
      exploy_window_sums_@SUFFIX@(width, tap_count, taps, x + windows[window[0]], x + windows[window[1]],
          x + windows[window[2]], x + windows[window[3]], panel, sums);
      exploy_put_windows_@SUFFIX@(window_count, width, window, sums, bias + n, y + (n * window_count));
    }
  }
}
