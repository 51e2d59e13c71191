"""Many processes that train one model: each holds all rows and computes the sums over its share of a batch.

Part of `sodgp.training`.
"""
