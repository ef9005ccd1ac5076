"""Finds what would go wrong on the robot before a file exists: state that would be frozen, forgotten or random."""
