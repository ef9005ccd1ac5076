/* One of two doubles, by masks: of ?: gcc makes branches where an arm is a constant, and then vectorises no loop. */
#include "f64_of_word.h"
#include "word_of_f64.h"

static inline double exploy_select_f64(bool condition, double yes, double no)
{
  const uint64_t mask = (uint64_t)0 - (uint64_t)condition;
  return exploy_f64_of_word((exploy_word_of_f64(yes) & mask) | (exploy_word_of_f64(no) & ~mask));
}
