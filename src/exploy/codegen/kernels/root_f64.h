/* The square root of a double, under a name that kernels of both types use. */
static inline double exploy_root_f64(double x)
{
  return sqrt(x);
}
