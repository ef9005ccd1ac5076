"""Detectors that turn evidence into findings, one module for each kind of error."""
