/* The arctangent of a double. */

static inline double exploy_atan_f64(double x)
{
  const double size = fabs(x);
  double t = size; /* the result is a multiple of pi / 4, and atan(t) with |t| below sqrt(2) - 1 */
  double high = 0.0;
  double low = 0.0;
  if (size > 0x1.3504f333f9de6p+1) {
    t = -1.0 / size;
    high = 0x1.921fb54442d18p+0;
    low = 0x1.1a62633145c07p-54;
  } else if (size > 0x1.a827999fcef32p-2) {
    t = (size - 1.0) / (size + 1.0);
    high = 0x1.921fb54442d18p-1;
    low = 0x1.1a62633145c07p-55;
  }
  const double square = t * t;
  double p = -0x1.26c203315a788p-6;
  p = p * square + 0x1.3879fd7cee3a7p-5;
  p = p * square - 0x1.9d16b722f94eep-5;
  p = p * square + 0x1.df1f35877be71p-5;
  p = p * square - 0x1.10ece0f90fb88p-4;
  p = p * square + 0x1.3b1134ebf2ebdp-4;
  p = p * square - 0x1.745cfa89bba65p-4;
  p = p * square + 0x1.c71c70f635526p-4;
  p = p * square - 0x1.24924922da934p-3;
  p = p * square + 0x1.9999999996062p-3;
  p = p * square - 0x1.5555555555541p-2;
  return copysign(high + (t + (p * square * t + low)), x);
}
