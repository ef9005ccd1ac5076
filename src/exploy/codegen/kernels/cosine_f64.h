/* cos(r + low) of doubles, for |r| up to pi / 4 and low below the last digit of r. */

static inline double exploy_cosine_f64(double r, double low)
{
  const double square = r * r;
  double p = -0x1.8fb22bb883a1dp-37;
  p = p * square + 0x1.1ee9f322db1ffp-29;
  p = p * square - 0x1.27e4f81529814p-22;
  p = p * square + 0x1.a01a019cc23a8p-16;
  p = p * square - 0x1.6c16c16c15232p-10;
  p = p * square + 0x1.555555555554cp-5;
  const double half = 0.5 * square;
  const double high = 1.0 - half;
  return high + (((1.0 - high) - half) + (p * square * square - r * low));
}
