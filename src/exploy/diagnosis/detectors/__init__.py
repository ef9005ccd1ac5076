"""What is found in the evidence: a module for each kind of thing that can be wrong."""
