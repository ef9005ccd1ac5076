/* The error function of a double. */
#include "exp_f64.h"

static inline double exploy_erf_f64(double x)
{
  const double a = fabs(x);
  double value = a + 1.0; /* NaN stays */
  if (a < 1.0) {
    const double square = a * a;
    double p = 0x1.3d4aea6913c68p-34;
    p = p * square - 0x1.4e0f1da51ee44p-30;
    p = p * square + 0x1.ff0479455e863p-27;
    p = p * square - 0x1.5fd7273943741p-23;
    p = p * square + 0x1.b9f65532525dep-20;
    p = p * square - 0x1.f4d3d55690568p-17;
    p = p * square + 0x1.f9a33e112f8c4p-14;
    p = p * square - 0x1.c02db4ecff737p-11;
    p = p * square + 0x1.565bcd147d8f2p-8;
    p = p * square - 0x1.b82ce312b936bp-6;
    p = p * square + 0x1.ce2f21a04392dp-4;
    p = p * square - 0x1.812746b037a01p-2;
    p = p * square + 0x1.06eba8214db69p-3;
    value = a + a * p;
  } else if (a < 6.0) {
    const double t = (a - 2.0) / (a + 2.0);
    double p = -0x1.bbaa230bce67bp-20;
    p = p * t - 0x1.eb5064294e096p-17;
    p = p * t - 0x1.ca905ecf1d4edp-16;
    p = p * t + 0x1.d02252ab18e8bp-16;
    p = p * t + 0x1.6daea8f91df4ep-13;
    p = p * t + 0x1.6d528550e5e77p-15;
    p = p * t - 0x1.016b6f8cb843ap-10;
    p = p * t - 0x1.bc25a3069b802p-11;
    p = p * t + 0x1.ca95ed6c00e94p-8;
    p = p * t + 0x1.e947159988ff6p-9;
    p = p * t - 0x1.437f0b68c2e6bp-4;
    p = p * t + 0x1.eeea7dc8a77aap-3;
    p = p * t - 0x1.b57034efd3f71p-2;
    p = p * t + 0x1.058671b52c776p-2;
    value = 1.0 - exploy_exp_f64(-a * a) * p;
  } else if (a >= 6.0) {
    value = 1.0;
  }
  return copysign(value, x);
}
