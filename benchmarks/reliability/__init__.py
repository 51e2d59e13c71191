"""Proofs of reliability that take minutes: killed runs, fuzzed files, hostile data, a soak; tests run small ones."""
