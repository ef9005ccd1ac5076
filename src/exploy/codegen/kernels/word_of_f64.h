/* The bits of a double. */

static inline uint64_t exploy_word_of_f64(double x)
{
  uint64_t word;
  (void)memcpy(&word, &x, sizeof word);
  return word;
}
