"""Policies without an environment: one rate, from observations to actions."""
