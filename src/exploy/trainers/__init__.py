"""Exports policies of training libraries, from a live object or a checkpoint to one file. One module per library."""
