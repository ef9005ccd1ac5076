"""Policies of training libraries, one module a library: its own object or checkpoint in, one file out."""
