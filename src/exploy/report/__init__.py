"""The report: all that is known of a file, as one HTML page that opens offline."""
