"""The inference methods, one file each, behind the contract of `sodgp.inference.contract`.

Pure functions of model, batch and draws. Imports `model` and `selectors` and below; the methods do not import each other.
"""
