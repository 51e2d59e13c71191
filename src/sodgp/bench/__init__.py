"""The benchmark: the paper's tables, rerun cell by cell.

A *cell* is one (data set, method, depth, split), kept as one JSON file. Modules: `protocol` (what to run, with which
settings), `cells` (the files), `methods` and `peers` (how a cell is computed), `history` (its curves), `run` (all of
them, resumable), `table`, `html` and `plot` (what came out), `command` (``sodgp bench``). See ``docs/benchmark.md``.
"""
