"""The benchmark: the paper's tables, rerun cell by cell.

A *cell* is one (data set, method, depth, split), kept as one JSON file. Modules: `protocol` (what to run, with which
settings), `splits` (rows for training and test), `cells` (the files), `methods`, `peers`, `gpytorch_peer` and
`tutorial` (how a cell is computed), `history` (its curves), `unfinished` (its checkpoints), `machine` (where), `run`
(all of them, resumable), `display` (how far it is), `table`, `html` and `plot` (what came out), `command` (``sodgp
bench``). See ``docs/benchmark.md``.
"""
