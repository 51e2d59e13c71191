"""The command line: ``sodgp fit``, ``predict``, ``evaluate``, ``report``, ``calibrate``, ``info`` and ``demo``.

Modules: `program` (the program and its commands), `calibration` (one more), `group` (errors and exit codes), `options`
(flags for the estimator's arguments), `config` (TOML files), `tables` (data files in and out), `tasks` (regression,
classification or counts), `predictions`, `scores` and `summary` (what commands write).
"""

from sodgp.cli.program import app, main

__all__ = ["app", "main"]
