"""Covariance functions: made from their names, evaluated densely, described in model files.

Imports `linalg` and `system`; layers and everything above may import it.
"""
