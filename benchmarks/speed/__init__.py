"""Time and memory of one training step: ours, GPyTorch's deep GP, and the floor that the hardware sets.

Run ``python -m benchmarks.speed``; see ``benchmarks/README.md``.
"""
