"""Policies of training libraries, one module per library. The code is in `exploy.trainers`."""
