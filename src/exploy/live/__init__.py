"""Inspects live Python objects: their contents, memory layout and running code. Also saves and restores their state."""
