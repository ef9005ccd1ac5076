"""Tests of simulators; a package, so that its folders do not hide the libraries that they are named after."""
