/* The sums of four windows for one panel of 16 channels, or for two where registers hold as many; those of a window are
 * 32 apart from those of the next one. */
#include "window_tile_@SUFFIX@.h"
#include "wide_window_tile_@SUFFIX@.h"

static inline void exploy_window_sums_@SUFFIX@(int32_t channels, int32_t tap_count, const int32_t *restrict taps,
    const @TYPE@ *restrict a, const @TYPE@ *restrict b, const @TYPE@ *restrict c, const @TYPE@ *restrict d,
    const @TYPE@ *restrict weights, @TYPE@ *restrict sums)
{
#if defined(__AVX512F__)
  if (channels > 16) {
    exploy_wide_window_tile_@SUFFIX@(tap_count, taps, a, b, c, d, weights, tap_count * 16, sums);
    return;
  }
#endif
  (void)channels;
  exploy_window_tile_@SUFFIX@(tap_count, taps, a, b, c, d, weights, sums);
}
