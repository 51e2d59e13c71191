"""Tables in files and data frames, and back.

Imports `data` and below; the estimator and everything above may import it.
"""
