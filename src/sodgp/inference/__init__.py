"""Inference methods: one file each, an objective that is a pure function of (model, batch, draws)."""
