"""Compares exported files with the programs and environments that they were made from."""
