"""The command line: `exploy …`."""
