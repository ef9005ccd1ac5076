/* x = q pi/2 + r + low, with |r| at most pi / 4, for all finite floats. */
#include "large_quadrant.h"
#include "word_of_f32.h"

typedef struct {
  uint32_t q; /* modulo 4 */
  float r;
  float low; /* below the last digit of r */
} exploy_quadrant_f32_t;

static inline exploy_quadrant_f32_t exploy_quadrant_f32(float x)
{
  exploy_quadrant_f32_t result;
  if (fabsf(x) <= 400.0f) {
    const float shifted = x * 0x1.45f306p-1f + 0x1.8p+23f; /* the sum is rounded to a whole number */
    const float n = shifted - 0x1.8p+23f;
    const float high = x - n * 0x1.922p+0f; /* exact, as is the next product: n has 8 bits, the constants 16 */
    const float middle = n * -0x1.2aeep-18f;
    result.q = exploy_word_of_f32(shifted) & 3u;
    result.r = high - middle; /* exact if it is small */
    result.low = ((high - result.r) - middle) - n * -0x1.e973dcp-35f;
  } else {
    const exploy_large_quadrant_t large = exploy_large_quadrant((double)x);
    result.q = large.q;
    result.r = (float)large.r;
    result.low = (float)(large.r - (double)result.r);
  }
  return result;
}
