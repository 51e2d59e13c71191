"""A deep GP: its architecture, and the stack of layers with a likelihood. Composition only.

Imports `likelihoods` and below; selectors, inference and everything above may import it.
"""
