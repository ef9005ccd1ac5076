"""The version of exploy, which every file that it exports bears."""

__version__ = "0.1.0"
