/* asin(sqrt((1 - x) / 2)) of a double from 1/2 to 1, which is half of acos(x), as a sum of two. */
#include "arcsine_f64.h"
#include "f64_of_word.h"
#include "word_of_f64.h"

typedef struct {
  double high; /* its last digits are zeros */
  double low;
} exploy_half_angle_f64_t;

static inline exploy_half_angle_f64_t exploy_half_angle_f64(double x)
{
  const double square = 0.5 * (1.0 - x); /* exact */
  const double root = sqrt(square);
  exploy_half_angle_f64_t result;
  result.high = exploy_f64_of_word(exploy_word_of_f64(root) & 0xffffffff00000000u); /* its square is exact */
  const double rest = square > 0.0 ? (square - result.high * result.high) / (root + result.high) : 0.0;
  result.low = rest + exploy_arcsine_f64(root);
  return result;
}
