"""Program in, file out. Knows no environments."""
