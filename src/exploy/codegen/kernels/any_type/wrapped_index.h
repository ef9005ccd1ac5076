/* An index from the front, where negative ones count from the end; unchanged if it is outside. */
static inline @TYPE@ exploy_wrapped_index_@SUFFIX@(@TYPE@ index, @TYPE@ size)
{
  return ((index < 0) && (index >= -size)) ? (index + size) : index;
}
