/* The sums of one row of a tile, added to `start`: 16, or as many as there are columns left. */
static inline void exploy_add_row_@SUFFIX@(int32_t width, const @TYPE@ *restrict start, const @TYPE@ *restrict sums,
    @TYPE@ *restrict y)
{
  if (width == 16) {
    for (int32_t j = 0; j < 16; j++) {
      y[j] = start[j] + sums[j];
    }
  } else {
    for (int32_t j = 0; j < width; j++) {
      y[j] = start[j] + sums[j];
    }
  }
}
