"""What manager-based simulators have in common: observation, action and command managers, and a loop over sub-steps."""
