"""Files, memory, threads, terminal and users' input: the parts that know nothing of Gaussian processes.

Every other room may import it, and it imports `sodgp.errors` only.
"""
