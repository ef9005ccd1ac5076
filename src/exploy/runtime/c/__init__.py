"""Runs archives of C: the library in them, without a runtime."""
