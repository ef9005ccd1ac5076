"""Runs `.pt2` files: archives with a contract, and the programs in them, which torch runs."""
