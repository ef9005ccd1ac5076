"""Looks at live Python objects: what they hold, where it lies in memory, which code runs; and puts them back."""
