"""Proofs of reliability that take minutes: killed runs, fuzzed model files, hostile data, a soak. Tests run small ones."""
