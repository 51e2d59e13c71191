"""Writing a run to a folder while it goes on, and continuing from it.

Part of `sodgp.training`.
"""
