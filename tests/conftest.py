"""One thread a process: the tests run in several, and small networks get slower by more threads."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
