"""Builds the description of a file from a program and its artifact: contract, metadata, provenance."""
