"""Converts a captured Program to a file for torch: exported programs, or libraries compiled from them."""
