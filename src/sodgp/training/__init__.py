"""The training loop and what watches it: the only place with input and output during a fit."""
