"""What the modules of several training libraries share."""
