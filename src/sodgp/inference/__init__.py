"""The inference methods, one file each, behind the contract of `sodgp.inference.contract`.

Objectives and predictions are pure functions of model, data and random numbers. Imports `selectors`, `model` and below;
the methods do not import each other.
"""
