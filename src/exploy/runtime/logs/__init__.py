"""Logs of a controller's inputs and outputs at every tick: as npz, or as MCAP for robot tools."""
