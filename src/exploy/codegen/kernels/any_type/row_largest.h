/* The largest of adjacent elements, without those that are NaN; -inf if there are no others. */
static inline @TYPE@ exploy_row_largest_@SUFFIX@(int32_t size, const @TYPE@ *restrict x)
{
  @TYPE@ parts[16];
  const int32_t whole = size - (size % 16);
  for (int32_t j = 0; j < 16; j++) {
    parts[j] = -(@TYPE@)INFINITY;
  }
  for (int32_t i = 0; i < whole; i += 16) {
    for (int32_t j = 0; j < 16; j++) {
      parts[j] = (x[i + j] > parts[j]) ? x[i + j] : parts[j];
    }
  }
  for (int32_t i = whole; i < size; i++) {
    parts[i - whole] = (x[i] > parts[i - whole]) ? x[i] : parts[i - whole];
  }
  for (int32_t j = 1; j < 16; j++) {
    parts[0] = (parts[j] > parts[0]) ? parts[j] : parts[0];
  }
  return parts[0];
}
