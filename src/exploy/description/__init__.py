"""What a file says about itself: contract, metadata, provenance, from a program and its artifact."""
