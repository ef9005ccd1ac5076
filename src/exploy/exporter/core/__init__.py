"""The documented exporter API, one concept a module."""
