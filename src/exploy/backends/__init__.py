"""Converts captured programs to files. Does not depend on environments."""
