"""The options of an estimator: what each may be, which go together, what they become.

Part of `sodgp.estimator`.
"""
