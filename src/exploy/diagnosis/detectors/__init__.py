"""Detectors that turn evidence into findings, one module for each kind of error.

A module lists its detectors at its end. The name of the list says when the check calls them:

- BEFORE: before the steps. A finding ends the check, unless it is about names.
- OF_STEPS: after the steps, even if nothing could be captured; then `Examination.captured` is None.
- ON_TRIAL: after the steps. Changes that the detector makes to the environment are undone.
"""
