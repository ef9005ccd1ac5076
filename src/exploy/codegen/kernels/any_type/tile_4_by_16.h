/* 64 sums: four vectors times 16 columns of a matrix, whose rows are `stride` apart, in the order of the inputs. */
static inline void exploy_tile_4_by_16_@SUFFIX@(int32_t inner, const @TYPE@ *restrict a, const @TYPE@ *restrict b,
    const @TYPE@ *restrict c, const @TYPE@ *restrict d, int32_t stride, const @TYPE@ *restrict weights,
    @TYPE@ *restrict sums)
{
  @TYPE@ of_a[16];
  @TYPE@ of_b[16];
  @TYPE@ of_c[16];
  @TYPE@ of_d[16];
  for (int32_t j = 0; j < 16; j++) {
    of_a[j] = sums[j];
    of_b[j] = sums[16 + j];
    of_c[j] = sums[32 + j];
    of_d[j] = sums[48 + j];
  }
  for (int32_t k = 0; k < inner; k++) {
    const @TYPE@ *const row = weights + (k * stride);
    const @TYPE@ from_a = a[k];
    const @TYPE@ from_b = b[k];
    const @TYPE@ from_c = c[k];
    const @TYPE@ from_d = d[k];
    for (int32_t j = 0; j < 16; j++) {
      const @TYPE@ weight = row[j];
      of_a[j] += from_a * weight;
      of_b[j] += from_b * weight;
      of_c[j] += from_c * weight;
      of_d[j] += from_d * weight;
    }
  }
  for (int32_t j = 0; j < 16; j++) {
    sums[j] = of_a[j];
    sums[16 + j] = of_b[j];
    sums[32 + j] = of_c[j];
    sums[48 + j] = of_d[j];
  }
}
