"""Classes and counts: ours, other Gaussian processes, and what one would use instead."""
