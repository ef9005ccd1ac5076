"""Code shared by the modules of several training libraries."""
