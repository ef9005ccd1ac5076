/* x = q pi/2 + r + low, with |r| at most pi / 4, for all finite doubles. */
#include "large_quadrant.h"
#include "word_of_f64.h"

typedef struct {
  uint32_t q; /* modulo 4 */
  double r;
  double low; /* below the last digit of r */
} exploy_quadrant_f64_t;

static inline exploy_quadrant_f64_t exploy_quadrant_f64(double x)
{
  exploy_quadrant_f64_t result;
  if (fabs(x) <= 1e6) {
    const double shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p+52; /* the sum is rounded to a whole number */
    const double n = shifted - 0x1.8p+52;
    const double first = x - n * 0x1.921fb544p+0; /* exact, as are these products: n has 20 bits, the constants 33 */
    const double second = n * 0x1.0b4611a6p-34;
    const double third = n * 0x1.3198a2ep-69;
    const double middle = first - second; /* exact if it is small, as is the next difference */
    const double r = middle - third;
    const double low = ((first - middle) - second) + (((middle - r) - third) - n * 0x1.b839a252049c1p-104);
    result.q = (uint32_t)(exploy_word_of_f64(shifted) & 3u);
    result.r = r + low;
    result.low = (r - result.r) + low;
  } else {
    const exploy_large_quadrant_t large = exploy_large_quadrant(x);
    result.q = large.q;
    result.r = large.r;
    result.low = large.low;
  }
  return result;
}
