/* The double that has these bits. */

static inline double exploy_f64_of_word(uint64_t word)
{
  double x;
  (void)memcpy(&x, &word, sizeof x);
  return x;
}
