"""Bayesian optimisation with a deep GP, against random search and BoTorch's own GP."""
