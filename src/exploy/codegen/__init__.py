"""Writes the C source of an exported file: observations, policy, action processing and memory, without a runtime."""
