"""The options of an estimator: what each may be, which exclude each other, what they become.

Part of `sodgp.estimator`.
"""
