/* The natural logarithm of a float. */
#include "log_split_f32.h"
#include "log_sum_f32.h"
#include "select_f32.h"

static inline float exploy_log_f32(float x)
{
  const bool usual = (x > 0.0f) & (x < INFINITY);
  const exploy_log_split_f32_t split = exploy_log_split_f32(exploy_select_f32(usual, x, 1.0f));
  const float otherwise = exploy_select_f32(x == 0.0f, -INFINITY, exploy_select_f32(x < 0.0f, NAN, x));
  return exploy_select_f32(usual, exploy_log_sum_f32((float)split.n, split.m - 1.0f), otherwise);
}
