"""Deep Gaussian processes whose inducing points are a subset of the data."""
