"""Feeds damaged and hostile files and logs to everything that reads them: `python -m tests.fuzz 10000`."""
