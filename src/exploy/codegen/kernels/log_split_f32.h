/* x = 2^n m with m from sqrt(1/2) to sqrt(2), for finite x above zero. */
#include "f32_of_word.h"
#include "select_f32.h"
#include "word_of_f32.h"

typedef struct {
  int32_t n;
  float m;
} exploy_log_split_f32_t;

static inline exploy_log_split_f32_t exploy_log_split_f32(float x)
{
  const bool denormal = x < 0x1p-126f;
  const float factor = exploy_select_f32(denormal, 0x1p+23f, 1.0f);
  const uint32_t word = exploy_word_of_f32(x * factor) + (0x3f800000u - 0x3f3504f3u); /* carries from sqrt(2) on */
  exploy_log_split_f32_t result;
  result.n = (int32_t)(word >> 23) - 127 - 23 * (int32_t)denormal;
  result.m = exploy_f32_of_word((word & 0x007fffffu) + 0x3f3504f3u);
  return result;
}
