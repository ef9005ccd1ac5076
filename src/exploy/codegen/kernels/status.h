/* What a step ends with, if it finds a value that it cannot take. */
enum { EXPLOY_INDEX_OUT_OF_RANGE = 1, EXPLOY_BAD_CONVERSION = 2, EXPLOY_DIVISION_BY_ZERO = 3 };
