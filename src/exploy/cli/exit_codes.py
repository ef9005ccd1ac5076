"""What a command exits with: 0 if all is well, 1 where something differs or would, 2 for what could not be done."""

FOUND, FAILED, INTERRUPTED = 1, 2, 130
