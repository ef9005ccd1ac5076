"""Finds what to register: by moving an environment and looking at what changes."""
