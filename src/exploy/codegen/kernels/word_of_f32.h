/* The bits of a float. */

static inline uint32_t exploy_word_of_f32(float x)
{
  uint32_t word;
  (void)memcpy(&word, &x, sizeof word);
  return word;
}
