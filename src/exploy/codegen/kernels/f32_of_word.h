/* The float that has these bits. */

static inline float exploy_f32_of_word(uint32_t word)
{
  float x;
  (void)memcpy(&x, &word, sizeof x);
  return x;
}
