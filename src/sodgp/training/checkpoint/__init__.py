"""Checkpoints: writing a run to a folder while it trains, and continuing from it.

Part of `sodgp.training`.
"""
