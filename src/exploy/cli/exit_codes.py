"""Exit codes of commands: 0 for success, 1 for differences or findings, 2 for errors."""

FOUND, FAILED, INTERRUPTED = 1, 2, 130
