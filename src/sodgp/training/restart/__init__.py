"""Beginning from what another model has learned: warm starts, moved subsets, comparisons of restarts.

Part of `sodgp.training`.
"""
