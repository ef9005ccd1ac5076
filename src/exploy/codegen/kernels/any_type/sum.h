/* Sums of `size` elements that are `inner` apart, each in their order. */
static inline void exploy_sum_@SUFFIX@(int32_t outer, int32_t size, int32_t inner, const @TYPE@ *restrict x,
    @TYPE@ *restrict result)
{
  for (int32_t i = 0; i < outer; i++) {
    @TYPE@ *const y = result + (i * inner);
    for (int32_t k = 0; k < inner; k++) {
      y[k] = (@TYPE@)0;
    }
    for (int32_t j = 0; j < size; j++) {
      const @TYPE@ *const row = x + (((i * size) + j) * inner);
      for (int32_t k = 0; k < inner; k++) {
        y[k] = @ADD@(y[k], row[k]);
      }
    }
  }
}
