/* log(1 + x) of a float, without cancellation. */
#include "f32_of_word.h"
#include "log_split_f32.h"
#include "log_sum_f32.h"
#include "select_f32.h"

static inline float exploy_log1p_f32(float x)
{
  const bool usual = (x > -1.0f) & (x < INFINITY);
  const float t = exploy_select_f32(usual, x, 0.0f);
  const float sum = 1.0f + t;
  const float part = sum - 1.0f;
  const float lost = (1.0f - (sum - part)) + (t - part); /* what rounding took from the sum */
  const exploy_log_split_f32_t split = exploy_log_split_f32(sum);
  const float quarter = exploy_f32_of_word((uint32_t)(129 - split.n) << 23); /* 4 * 2^-n, as n may be 128 */
  const float f = (split.m - 1.0f) + lost * quarter * 0.25f;
  const float otherwise = exploy_select_f32(x == -1.0f, -INFINITY, exploy_select_f32(x < 0.0f, NAN, x));
  return copysignf(exploy_select_f32(usual, exploy_log_sum_f32((float)split.n, f), otherwise), x);
}
