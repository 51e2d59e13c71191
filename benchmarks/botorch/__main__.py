"""Evaluations until the optimum is found: `python -m benchmarks.botorch`.

Writes every finished cell at once, and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.botorch.loop import PROBLEMS, Outcome, bayesian_search, deep, random_search, shallow

SEARCHES = ("deep GP", "GP", "random")
RANDOM_BUDGET = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--initial", type=int, default=6)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/botorch.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for problem in PROBLEMS:
        for seed in range(options.seeds):
            for search in SEARCHES:
                name = f"{problem} / {search} / {seed}"
                if name in cells:
                    continue
                begun = time.perf_counter()
                outcome = _search(problem, search, seed, options)
                seconds = time.perf_counter() - begun
                cells[name] = {"evaluations": outcome.evaluations, "best": outcome.best, "seconds": round(seconds, 1)}
                print(name, cells[name], flush=True)
                options.out.write_text(json.dumps(cells, indent=1) + "\n")
    page = options.out.with_suffix(".md")
    page.write_text(report(cells, options))
    print(page.read_text())


def _search(problem: str, search: str, seed: int, options: argparse.Namespace) -> Outcome:
    if search == "random":
        return random_search(PROBLEMS[problem], seed, n_initial=options.initial, budget=RANDOM_BUDGET)
    surrogate = deep if search == "deep GP" else shallow
    with warnings.catch_warnings():
        # BoTorch retries its own fits and says so.
        warnings.simplefilter("ignore")
        return bayesian_search(PROBLEMS[problem], seed, surrogate, n_initial=options.initial, budget=options.budget)


def report(cells: dict[str, Any], options: argparse.Namespace) -> str:
    """The page of results."""
    lines = [
        "# Evaluations until the optimum is found",
        "",
        f"`python -m benchmarks.botorch --seeds {options.seeds} --initial {options.initial} --budget {options.budget}`."
        " Every search begins with the same random points of its seed, which count. Bayesian searches add one point at"
        " a time by qLogExpectedImprovement; `>` means not within the budget.",
        "",
        "| problem | search | found | median | per seed |",
        "|---|---|---|---|---|",
    ]
    for problem in PROBLEMS:
        for search in SEARCHES:
            budget = RANDOM_BUDGET if search == "random" else options.budget
            found = [cells[f"{problem} / {search} / {seed}"]["evaluations"] for seed in range(options.seeds)]
            middle = statistics.median(budget + 1 if value is None else value for value in found)
            shown = ", ".join(f">{budget}" if value is None else str(value) for value in found)
            count = sum(value is not None for value in found)
            lines.append(f"| {problem} | {search} | {count}/{options.seeds} | {middle:g} | {shown} |")
    lines += [
        "",
        "Targets: " + ", ".join(f"{name} {p.target:g} (optimum {p.best:.4f})" for name, p in PROBLEMS.items()),
    ]
    return "\n".join(lines) + ".\n"


if __name__ == "__main__":
    main()
