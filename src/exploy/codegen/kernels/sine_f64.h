/* sin(r + low) of doubles, for |r| up to pi / 4 and low below the last digit of r. */

static inline double exploy_sine_f64(double r, double low)
{
  const double square = r * r;
  double p = 0x1.5d995dd2e1161p-33;
  p = p * square - 0x1.ae5e7df8af8fep-26;
  p = p * square + 0x1.71de3598e5724p-19;
  p = p * square - 0x1.a01a019c3c20ap-13;
  p = p * square + 0x1.111111110f9fdp-7;
  p = p * square - 0x1.555555555554ap-3;
  return r + (p * square * r + low * (1.0 - 0.5 * square));
}
