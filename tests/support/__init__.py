"""Environments that the tests share."""
