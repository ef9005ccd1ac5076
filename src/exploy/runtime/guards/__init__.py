"""What the controller checks while it runs, and what it does when a check fails."""
