"""Commands for maintainers, which the package does not contain."""
