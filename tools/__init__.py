"""Commands for maintainers. They are not part of the package."""
