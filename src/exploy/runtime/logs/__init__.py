"""Logs of what a controller took and gave, tick by tick: as npz, or as MCAP for robot tools."""
