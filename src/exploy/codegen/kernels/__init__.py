"""C source of mathematical functions, one function per file, for emitted files to include verbatim.

The first line of a file says what it holds. The `#include "..."` lines at its top name the files that it needs. There
are no include guards: whoever puts files together takes each one once, after those that it needs, without these lines.
`<stdint.h>`, `<string.h>`, `<math.h>`, `<stddef.h>` and `<stdbool.h>` are expected to be there.

With `-ffp-contract=off`, results have the same bits wherever `float` and `double` are IEEE 754 types that are computed
without excess precision. The only library functions are those that are exact or correctly rounded, such as `sqrt` and
`floor`. `tools/kernel_coefficients.py` prints the coefficients.
"""
