"""Fits to rows that do not fit into memory: looked at once, scaled and shuffled on disk, read as steps need them.

Part of `sodgp.estimator`.
"""
