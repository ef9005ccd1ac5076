/* cos(r + low) of floats, for |r| up to pi / 4 and low below the last digit of r. */

static inline float exploy_cosine_f32(float r, float low)
{
  const float square = r * r;
  float p = 0x1.99eacep-16f;
  p = p * square - 0x1.6c0c2ep-10f;
  p = p * square + 0x1.55554ap-5f;
  const float half = 0.5f * square;
  const float high = 1.0f - half;
  return high + (((1.0f - high) - half) + (p * square * square - r * low));
}
