"""The training loop, its steps, schedules, callbacks and history: the only room that runs for minutes.

It asks a method only what the contract has, and imports `inference` and below.
"""
