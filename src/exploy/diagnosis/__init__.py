"""Finds errors before the export: state that would be frozen, missing or random in the file."""
