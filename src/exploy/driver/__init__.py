"""The export itself: its options, the order of work, the writing."""
