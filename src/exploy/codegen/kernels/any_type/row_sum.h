/* The sum of adjacent elements, in 16 parts: those of elements 16 apart, which are added in pairs at the end. */
static inline @TYPE@ exploy_row_sum_@SUFFIX@(int32_t size, const @TYPE@ *restrict x)
{
  @TYPE@ parts[16] = {0};
  const int32_t whole = size - (size % 16);
  for (int32_t i = 0; i < whole; i += 16) {
    for (int32_t j = 0; j < 16; j++) {
      parts[j] += x[i + j];
    }
  }
  for (int32_t i = whole; i < size; i++) {
    parts[i - whole] += x[i];
  }
  for (int32_t count = 8; count > 0; count /= 2) {
    for (int32_t j = 0; j < count; j++) {
      parts[j] += parts[j + count];
    }
  }
  return parts[0];
}
