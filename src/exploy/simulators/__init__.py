"""What exploy knows about simulators. None of them is imported before it is used."""
