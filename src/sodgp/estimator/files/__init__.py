"""Model files: a fitted estimator as safetensors and JSON, and back.

Part of `sodgp.estimator`.
"""
