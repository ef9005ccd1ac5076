/* asin(x) - x of a double up to 1/2. */

static inline double exploy_arcsine_f64(double x)
{
  const double square = x * x;
  double p = 0x1.02a6305af3859p-5;
  p = p * square - 0x1.01625ed5c6509p-6;
  p = p * square + 0x1.3a5765743f69cp-6;
  p = p * square + 0x1.b4663c5291cc6p-8;
  p = p * square + 0x1.8db809cd5f2a2p-7;
  p = p * square + 0x1.c7289d569252p-7;
  p = p * square + 0x1.1c69958525023p-6;
  p = p * square + 0x1.6e8a1dc857164p-6;
  p = p * square + 0x1.f1c72a5d53498p-6;
  p = p * square + 0x1.6db6db48b9eeep-5;
  p = p * square + 0x1.3333333363d95p-4;
  p = p * square + 0x1.55555555553f8p-3;
  return p * square * x;
}
