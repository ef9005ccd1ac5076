/* The smaller of two indices. */
static inline int32_t exploy_least_index(int32_t a, int32_t b)
{
  return (a < b) ? a : b;
}
