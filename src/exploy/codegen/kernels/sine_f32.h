/* sin(r + low) of floats, for |r| up to pi / 4 and low below the last digit of r. */

static inline float exploy_sine_f32(float r, float low)
{
  const float square = r * r;
  float p = -0x1.995794p-13f;
  p = p * square + 0x1.11078p-7f;
  p = p * square - 0x1.555546p-3f;
  return r + (p * square * r + low);
}
