"""Benchmarks. Results are ratios of candidates that are timed alternately within one run."""
