"""Fits of methods that sample: burn-in, posterior draws, diagnostics.

Part of `sodgp.training`.
"""
