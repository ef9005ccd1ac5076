/* One of two floats, by masks: of ?: gcc makes branches where an arm is a constant, and then vectorises no loop. */
#include "f32_of_word.h"
#include "word_of_f32.h"

static inline float exploy_select_f32(bool condition, float yes, float no)
{
  const uint32_t mask = 0u - (uint32_t)condition;
  return exploy_f32_of_word((exploy_word_of_f32(yes) & mask) | (exploy_word_of_f32(no) & ~mask));
}
