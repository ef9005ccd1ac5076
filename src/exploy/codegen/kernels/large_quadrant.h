/* |x| = q pi/2 + r + low for x from 1 to the largest double, by a product with as many bits of 2/pi as matter. */
#include "f64_of_word.h"
#include "product_f64.h"
#include "word_of_f64.h"

/* The bits of 2/pi: three words of zeros before the point, then those behind it. */
static const uint32_t exploy_two_over_pi[] = {
  0x00000000u, 0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
  0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu,
  0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu,
  0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u,
  0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u,
};

typedef struct {
  uint32_t q; /* modulo 4 */
  double r;   /* at most pi / 4 */
  double low; /* below the last digit of r */
} exploy_large_quadrant_t;

static inline exploy_large_quadrant_t exploy_large_quadrant(double x)
{
  const uint64_t word = exploy_word_of_f64(x);
  const uint64_t mantissa = (word & 0x000fffffffffffffu) | 0x0010000000000000u;
  const uint32_t exponent = (uint32_t)(word >> 52) & 0x7ffu;
  /* |x| = mantissa * 2^(exponent - 1075). Whole words of the shift choose where in the table to start: what is left of
     that is a multiple of 2^32 quadrants. */
  const uint32_t shift = exponent - 1011u;
  const uint32_t *const table = exploy_two_over_pi + shift / 32u;
  const uint32_t bits = shift % 32u;
  const uint64_t shifted = mantissa << bits;
  const uint64_t factors[3] = {shifted & 0xffffffffu, shifted >> 32, (bits == 0u) ? (uint64_t)0 : (mantissa >> (64u - bits))};
  uint32_t digits[6]; /* whole quadrants, then the fraction, most significant first */
  uint64_t carry = 0;
  for (uint32_t place = 0; place < 6u; place++) {
    const uint32_t i = 5u - place;
    uint64_t sum = carry & 0xffffffffu;
    carry >>= 32;
    for (uint32_t j = 0; j < 3u; j++) {
      const uint64_t product = factors[j] * table[i + j];
      sum += product & 0xffffffffu;
      carry += product >> 32;
    }
    digits[i] = (uint32_t)(sum & 0xffffffffu);
    carry += sum >> 32;
  }
  const bool upper = digits[1] >= 0x80000000u; /* then count back from the next quadrant */
  const uint32_t flip = upper ? 0xffffffffu : 0u;
  uint32_t first = 1;
  while ((first < 3u) && (digits[first] == flip)) { /* no double is nearer to a multiple of pi / 2 than 2^-64 */
    first++;
  }
  const uint64_t high = (uint64_t)(digits[first] ^ flip) << 21 | (uint64_t)((digits[first + 1u] ^ flip) >> 11);
  const uint64_t rest = (uint64_t)((digits[first + 1u] ^ flip) & 0x7ffu) << 32 | (uint64_t)(digits[first + 2u] ^ flip);
  const double scale = exploy_f64_of_word((uint64_t)(1023u - 32u * first) << 52);
  const double sign = upper != (word >> 63 != 0u) ? -scale : scale;
  const double fraction = (double)high * 0x1p-21 * sign;
  const exploy_product_f64_t product = exploy_product_f64(fraction, 0x1.921fb54442d18p+0);
  const double low = (double)rest * 0x1p-64 * sign * 0x1.921fb54442d18p+0;
  const double tail = product.low + (fraction * 0x1.1a62633145c07p-54 + low);
  exploy_large_quadrant_t result;
  result.q = upper ? digits[0] + 1u : digits[0];
  result.q = (word >> 63 != 0u ? 0u - result.q : result.q) & 3u;
  result.r = product.high + tail;
  result.low = (product.high - result.r) + tail;
  return result;
}
