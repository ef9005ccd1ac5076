/* What is left of the division of two floats, with the sign of the divisor, as in Python. */

static inline float exploy_floor_mod_f32(float x, float y)
{
  const float rest = fmodf(x, y);
  float value = rest;
  if (rest == 0.0f) {
    value = copysignf(rest, y);
  } else if ((rest < 0.0f) != (y < 0.0f)) {
    value = rest + y;
  }
  return value;
}
