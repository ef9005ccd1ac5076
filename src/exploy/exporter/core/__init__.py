"""The documented exporter API, one concept per module."""
