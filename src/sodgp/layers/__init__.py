"""The algebra of one GP layer: no data, no optimiser."""
