"""Kernels for NVIDIA GPUs, compiled at first use. Each has a plain path that gives the same numbers.

Imported inside `linalg` and by the optimiser, nowhere else.
"""
