"""Runs `.pt2` files: archives with a contract and programs that torch runs."""
