"""The algebra of one GP layer: p(F_R | F_S), the families of q, inducing points, mean functions.

A layer knows no other layer and no data set. Imports `kernels` and below.
"""
