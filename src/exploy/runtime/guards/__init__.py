"""What the controller watches while it runs, and what it does when something is wrong."""
