/* A number divided by one more than its absolute value. */
static inline @TYPE@ exploy_softsign_@SUFFIX@(@TYPE@ x)
{
  const @TYPE@ size = (x < (@TYPE@)0) ? -x : x;
  return x / ((@TYPE@)1 + size);
}
