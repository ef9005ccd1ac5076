/* What is left of the division of two doubles, with the sign of the divisor, as in Python. */

static inline double exploy_floor_mod_f64(double x, double y)
{
  const double rest = fmod(x, y);
  double value = rest;
  if (rest == 0.0) {
    value = copysign(rest, y);
  } else if ((rest < 0.0) != (y < 0.0)) {
    value = rest + y;
  }
  return value;
}
