"""Runs of methods with a transition: burn-in, posterior draws, diagnostics.

Part of `sodgp.training`.
"""
