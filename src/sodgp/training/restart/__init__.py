"""Warm starts from a trained model, and bounds by which restarts are compared.

Part of `sodgp.training`.
"""
