"""The training loop, its steps, schedules, callbacks and history: the only room that runs for minutes.

Asks a method only what the contract has. Imports `inference` and below.
"""
