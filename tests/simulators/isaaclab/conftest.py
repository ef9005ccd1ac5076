"""Imports Isaac Lab before the tests do: its modules warn, which would be an error in a test."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tests.support.isaaclab_functions import functions

    functions()
