"""A captured Program as a file for torch: exported programs, or libraries compiled from them."""
