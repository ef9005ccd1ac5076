/* a b of doubles as a sum of two. Exact if neither a b nor its digits overflow or underflow. */

typedef struct {
  double high;
  double low; /* below the last digit of high */
} exploy_product_f64_t;

static inline exploy_product_f64_t exploy_product_f64(double a, double b)
{
  const double wide_a = a * 0x1.0000002p+27; /* cuts a into halves of 26 bits */
  const double wide_b = b * 0x1.0000002p+27;
  const double a_high = wide_a - (wide_a - a);
  const double b_high = wide_b - (wide_b - b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  exploy_product_f64_t result;
  result.high = a * b;
  result.low = ((a_high * b_high - result.high) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return result;
}
