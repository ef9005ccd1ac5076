"""Policies of training libraries, one module a library; they live in `exploy.trainers`."""
