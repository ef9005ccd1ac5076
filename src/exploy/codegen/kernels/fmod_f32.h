/* What is left of the division of two floats, with the sign of the dividend. The library's function is exact. */

static inline float exploy_fmod_f32(float x, float y)
{
  return fmodf(x, y);
}
