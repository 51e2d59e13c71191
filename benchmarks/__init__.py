"""Measurements of the library: outside the wheel, and never part of the tests."""
