"""Runs that are treated badly: what must hold when a process is killed."""
