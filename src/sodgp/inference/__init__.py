"""The inference methods, one file each, behind the contract of `sodgp.inference.contract`.

Pure functions of model, batch and draws. Imports `selectors`, `model` and below; the methods
do not import each other.
"""
