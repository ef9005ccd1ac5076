/* n ln 2 + log(1 + f), for 1 + f from sqrt(1/2) to sqrt(2). */

static inline double exploy_log_sum_f64(double n, double f)
{
  const double s = f / (2.0 + f); /* log(1 + f) is log((1 + s) / (1 - s)), an odd function of s */
  const double square = s * s;
  double p = 0x1.2ec3fcaac372ap-3;
  p = p * square + 0x1.39a88cf613572p-3;
  p = p * square + 0x1.7465f7488a909p-3;
  p = p * square + 0x1.c71c537e55d51p-3;
  p = p * square + 0x1.2492494000398p-2;
  p = p * square + 0x1.9999999982482p-2;
  p = p * square + 0x1.555555555558ap-1;
  p = p * square;
  /* 2 s + s p is f - (h - s (h + p)): the largest part, f, has no rounding error */
  const double h = 0.5 * f * f;
  return n * 0x1.62e42fefa38p-1 - ((h - (s * (h + p) + n * 0x1.ef35793c7673p-45)) - f);
}
