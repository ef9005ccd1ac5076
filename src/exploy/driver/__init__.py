"""The export: its options, the order of its steps, and the writing of files."""
