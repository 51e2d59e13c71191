"""The table of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Record = Mapping[str, Any]


def markdown(records: Sequence[Record], stage: str) -> str:
    """NLPP, CRPS and RMSE of every variant on every data set, and the coverage of 90 % intervals over all sets."""
    data = list(dict.fromkeys(r["cell"]["data"] for r in records))
    variants = list(dict.fromkeys(r["cell"]["variant"] for r in records))
    found = {(r["cell"]["variant"], r["cell"]["data"]): r for r in records}
    counts = sorted({r["splits"] for r in records if "splits" in r})
    parts = [f"## {stage}", f"Mean ± standard error over {' or '.join(map(str, counts))} splits."]
    for score in ("nlpp", "crps", "rmse"):
        rows = [[variant, *(_entry(found.get((variant, name)), score) for name in data)] for variant in variants]
        parts.append(f"### {score.upper()}\n\n" + _table(["variant", *data], rows))
    rows = []
    for variant in variants:
        own = [found[variant, name] for name in data if "nlpp" in found.get((variant, name), {})]
        shares = [float(np.mean(r["coverage_90"])) for r in own]
        seconds = [f"{r['seconds']:.0f}" for r in own]
        average = f"{100 * np.mean(shares):.1f}" if shares else "-"
        rows.append([variant, average, ", ".join(f"{100 * s:.0f}" for s in shares), ", ".join(seconds)])
    titles = ["variant", "mean, %", f"each ({', '.join(data)})", "seconds of all splits"]
    parts.append("### Coverage of 90 % intervals\n\n" + _table(titles, rows))
    return "\n\n".join(parts) + "\n"


def _entry(record: Record | None, score: str) -> str:
    if record is None:
        return "-"
    if "error" in record:
        return "failed"
    values = np.asarray(record[score])
    return f"{values.mean():.4g} ± {values.std(ddof=1) / np.sqrt(len(values)):.2g}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *rows])
