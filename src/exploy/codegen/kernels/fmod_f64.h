/* What is left of the division of two doubles, with the sign of the dividend. The library's function is exact. */

static inline double exploy_fmod_f64(double x, double y)
{
  return fmod(x, y);
}
