/* One channel of a convolution, line by line: lines start at `lines[i]`, and their windows are `stride` apart. */
static inline void exploy_convolve_lines_@SUFFIX@(int32_t line_count, int32_t width, int32_t stride, int32_t tap_count,
    const @TYPE@ *restrict x, const int32_t *restrict lines, const int32_t *restrict taps,
    const @TYPE@ *restrict weights, @TYPE@ bias, @TYPE@ *restrict y)
{
  for (int32_t i = 0; i < line_count; i++) {
    @TYPE@ *const result = y + (i * width);
    for (int32_t j = 0; j < width; j++) {
      result[j] = bias;
    }
    for (int32_t k = 0; k < tap_count; k++) {
      const @TYPE@ *const source = x + (lines[i] + taps[k]);
      for (int32_t j = 0; j < width; j++) {
        result[j] += source[j * stride] * weights[k];
      }
    }
  }
}
