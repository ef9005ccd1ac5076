"""A policy alone, without its environment, as one file: one rate, observations in, actions out."""
