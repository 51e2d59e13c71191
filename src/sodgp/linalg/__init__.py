"""Cholesky factors, products with hand-written gradients, random draws: linear algebra on tensors.

Knows no kernel and no layer. Imports `system` only; every room above may import it.
"""
