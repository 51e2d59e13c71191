"""What a prediction is: the mixture over Monte Carlo samples, its density, outliers and scores.

Arrays in, arrays out; knows no model. Imports `kernels` and below.
"""
