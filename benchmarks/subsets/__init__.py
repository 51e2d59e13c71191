"""Subset selectors compared: accuracy over M, and the time of a selection over N. See ``docs/subsets.md``."""
