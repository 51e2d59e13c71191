"""The model: the architecture of a deep GP, and the stack of layers with a likelihood.

Imports `likelihoods` and below; selectors, inference and everything above may import it.
"""
