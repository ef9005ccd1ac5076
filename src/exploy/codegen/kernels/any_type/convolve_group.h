/* The channels of one group of a convolution. Element `taps[k]` after the first one of a window, `windows[p]`, has the
 * weight k; the weights are in panels of 16 channels. Four windows are computed at once; the last of them again where
 * fewer are left. */
#include "least_index.h"

static inline void exploy_convolve_group_@SUFFIX@(int32_t window_count, int32_t tap_count, int32_t channels,
    const @TYPE@ *restrict x, const int32_t *restrict windows, const int32_t *restrict taps,
    const @TYPE@ *restrict weights, const @TYPE@ *restrict bias, @TYPE@ *restrict y)
{
  for (int32_t n = 0; n < channels; n += 16) {
    const @TYPE@ *const panel = weights + (n * tap_count);
    const int32_t width = exploy_least_index(16, channels - n);
    @TYPE@ start[16] = {0};
    for (int32_t j = 0; j < width; j++) {
      start[j] = bias[n + j];
    }
    for (int32_t p = 0; p < window_count; p += 4) {
      const int32_t second = exploy_least_index(p + 1, window_count - 1);
      const int32_t third = exploy_least_index(p + 2, window_count - 1);
      const int32_t fourth = exploy_least_index(p + 3, window_count - 1);
      const @TYPE@ *const a = x + windows[p];
      const @TYPE@ *const b = x + windows[second];
      const @TYPE@ *const c = x + windows[third];
      const @TYPE@ *const d = x + windows[fourth];
      @TYPE@ of_a[16];
      @TYPE@ of_b[16];
      @TYPE@ of_c[16];
      @TYPE@ of_d[16];
      for (int32_t j = 0; j < 16; j++) {
        of_a[j] = start[j];
        of_b[j] = start[j];
        of_c[j] = start[j];
        of_d[j] = start[j];
      }
      for (int32_t k = 0; k < tap_count; k++) {
        const @TYPE@ *const row = panel + (k * 16);
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
      for (int32_t j = 0; j < width; j++) {
        @TYPE@ *const result = y + ((n + j) * window_count);
        result[p] = of_a[j];
        result[second] = of_b[j];
        result[third] = of_c[j];
        result[fourth] = of_d[j];
      }
    }
  }
}
