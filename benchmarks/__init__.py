"""Measurements, each as a ratio of things that were timed in turn within one run."""
