"""Exit codes: 0 for success, 1 if a check failed, 2 for errors, 3 if something could not be compared."""

from exploy.verify.verdict import Verdict

FOUND, FAILED, INCOMPLETE, INTERRUPTED = 1, 2, 3, 130
EXIT_CODES = {Verdict.AGREES: 0, Verdict.DIFFERS: FOUND, Verdict.INCOMPLETE: INCOMPLETE}
