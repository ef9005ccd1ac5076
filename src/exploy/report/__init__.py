"""The report about a file, as one HTML page that works offline."""
