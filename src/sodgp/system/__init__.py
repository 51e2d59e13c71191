"""Files, memory, threads, terminal: what the library needs of the machine and says nothing about Gaussian processes.

The lowest room but for `sodgp.errors`; any other room may import it, and it imports none.
"""
