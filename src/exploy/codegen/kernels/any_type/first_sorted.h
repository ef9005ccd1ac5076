/* Whether a number is larger than another one; NaN is the largest. */
static inline bool exploy_is_larger_@SUFFIX@(@TYPE@ a, @TYPE@ b)
{
  return (a > b) || (@IS_NAN_A@ && (!(@IS_NAN_B@)));
}

/* The first `count` of `size` elements that are `inner` apart, sorted, and where they were. Equal ones stay in order:
 * the place of an element is the number of those that come before it. */
static inline void exploy_first_sorted_@SUFFIX@(int32_t outer, int32_t size, int32_t inner, int32_t count,
    bool descending, const @TYPE@ *x, @TYPE@ *values, int64_t *places)
{
  for (int32_t i = 0; i < outer; i++) {
    for (int32_t k = 0; k < inner; k++) {
      const @TYPE@ *const row = x + (((i * size) * inner) + k);
      for (int32_t j = 0; j < size; j++) {
        const @TYPE@ a = row[j * inner];
        int32_t rank = 0;
        for (int32_t other = 0; other < size; other++) {
          const @TYPE@ b = row[other * inner];
          const bool before = descending ? exploy_is_larger_@SUFFIX@(b, a) : exploy_is_larger_@SUFFIX@(a, b);
          const bool after = descending ? exploy_is_larger_@SUFFIX@(a, b) : exploy_is_larger_@SUFFIX@(b, a);
          rank += (before || ((!after) && (other < j))) ? 1 : 0;
        }
        if (rank < count) {
          values[(((i * count) + rank) * inner) + k] = a;
          places[(((i * count) + rank) * inner) + k] = j;
        }
      }
    }
  }
}
