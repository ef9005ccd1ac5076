/* n ln 2 + log(1 + f), for 1 + f from sqrt(1/2) to sqrt(2). */

static inline float exploy_log_sum_f32(float n, float f)
{
  const float s = f / (2.0f + f); /* log(1 + f) is log((1 + s) / (1 - s)), an odd function of s */
  const float square = s * s;
  float p = 0x1.d925e8p-3f;
  p = p * square + 0x1.248458p-2f;
  p = p * square + 0x1.999912p-2f;
  p = p * square + 0x1.555556p-1f;
  p = p * square;
  /* 2 s + s p is f - (h - s (h + p)): the largest part, f, has no rounding error */
  const float h = 0.5f * f * f;
  return n * 0x1.62e4p-1f - ((h - (s * (h + p) + n * 0x1.7f7d1cp-20f)) - f);
}
