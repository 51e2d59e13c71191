"""The record of a run as JSON, and the same as a page of Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed.contestants import COMPILED, FLOOR, OURS, PEER, REPLICATED

# With one thread, a process that got less of its core than this was disturbed.
QUIET = 0.95


def ratios(timings: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """For each of ours: how many times faster than GPyTorch, and how many times the floor.

    Parameters
    ----------
    timings : mapping of contestant to its times
        With ``median_ms``, ``min_ms`` and ``cpu_median_ms``.

    Returns
    -------
    dict of contestant to dict
        ``speedup`` and ``over_floor`` of the medians; with ``_of_min`` behind the name, of the best rounds; with
        ``_of_cpu``, of the medians of processor time, which say something on a CPU that others use too.
    """
    result: dict[str, dict[str, float]] = {}
    for name, own in timings.items():
        if name in (PEER, FLOOR) or name.startswith(REPLICATED):
            continue
        values = {}
        for key, ending in (("median_ms", ""), ("min_ms", "_of_min"), ("cpu_median_ms", "_of_cpu")):
            if PEER in timings:
                values["speedup" + ending] = timings[PEER][key] / own[key]
            if FLOOR in timings:
                values["over_floor" + ending] = own[key] / timings[FLOOR][key]
        result[name] = values
    return result


def store(record: Mapping[str, Any], path: Path) -> None:
    """Write the record to `path`, and its Markdown next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(record))


def markdown(record: Mapping[str, Any]) -> str:
    """The whole report."""
    parts = [_head(record)]
    if record["shapes"]:
        parts += [summary(record), *(details(name, shape) for name, shape in record["shapes"].items())]
    if "growth" in record:
        parts.append(growth(record["growth"]))
    return "\n\n".join(parts) + "\n"


def summary(record: Mapping[str, Any]) -> str:
    """One row a shape: SoD ancestral, GPyTorch and the floor, with what was asked for."""
    is_cuda = record["machine"]["device"] == "cuda"
    titles = ["shape", "ours (SoD ancestral), ms", "GPyTorch DSVI, ms", "floor, ms", "GPyTorch / ours", "ours / floor"]
    rows = [[*titles, "asked"]]
    for name, shape in record["shapes"].items():
        times, sizes = shape["timings"], shape["shape"]
        peers = [_number(times.get(other, {}).get("median_ms")) for other in (PEER, FLOOR)]
        for own, suffix in ((OURS, ""), (COMPILED, ", compiled")):
            if own == COMPILED and own not in times:
                continue
            ratio = shape["ratios"].get(own, {})
            cells = [_sizes(name, sizes) + suffix, _number(times.get(own, {}).get("median_ms")), *peers]
            cells += [_number(ratio.get("speedup"), "x"), _number(ratio.get("over_floor"), "x")]
            rows.append([*cells, _asked(sizes["targets"], is_cuda)])
        bound = sizes["targets"]["cuda_replicates_ms"]
        asked = "-" if bound is None else f"at most {bound:g} ms"
        together = [value for key, value in times.items() if key.startswith(REPLICATED)]
        rows += [[f"{name}: {t['label']}, together", _number(t["median_ms"]), *["-"] * 4, asked] for t in together]
    return "## Time per step\n\nMedians over the rounds.\n\n" + _table(rows)


def details(name: str, shape: Mapping[str, Any]) -> str:
    """Every contestant of one shape."""
    rows = [["contestant", "median, ms", "min, ms", "processor, ms", "GPyTorch / it", "it / floor", "peak memory, MiB"]]
    for contestant, times in shape["timings"].items():
        ratio = shape["ratios"].get(contestant, {})
        cells = [times["label"], *(_number(times[key]) for key in ("median_ms", "min_ms", "cpu_median_ms"))]
        cells += [_number(ratio.get("speedup"), "x"), _number(ratio.get("over_floor"), "x")]
        rows.append([*cells, _number(shape["peak_memory_mib"].get(contestant))])
    rounds = max(len(times["wall_ms"]) for times in shape["timings"].values())
    text = f"### {_sizes(name, shape['shape'])}\n\n{rounds} rounds.\n\n" + _table(rows)
    return text + "\n\n" + kernels(shape["profile"]) if "profile" in shape else text


def kernels(profile: Mapping[str, Any]) -> str:
    """What the compiled step does on the device, by kind and by its most expensive kernels."""
    total = sum(micro for micro, _ in profile["kinds"].values())
    rows = [["kernels of the compiled step", "µs", "launches"]]
    rows += [[kind, f"{micro:.0f}", f"{count:.0f}"] for kind, (micro, count) in profile["kinds"].items()]
    expensive = [f"* `{name}`: {micro:.0f} µs, {count:.0f}x" for name, micro, count in profile["dearest"]]
    # They run one by one: the sum is the step, but for the gaps between them.
    return _table([*rows, ["together", f"{total:.0f}", ""]]) + "\n\n" + "\n".join(expensive)


def growth(record: Mapping[str, Any]) -> str:
    """Slopes and the times behind them."""
    rows = [["size", "slope of log time", "ms (best round) at each value"]]
    for symbol, axis in record["axes"].items():
        points = ", ".join(f"{value}: {_number(times['min_ms'])}" for value, times in axis["points"].items())
        rows.append([f"{symbol} ({axis['field']})", f"{axis['slope']:.2f}", points])
    base = _sizes("base", record["base"])
    return f"## Growth of SoD ancestral\n\n{base}; one size changes at a time.\n\n" + _table(rows)


def disturbances(record: Mapping[str, Any]) -> list[str]:
    """Shapes at which other processes took the core away; only told apart on a CPU with one thread."""
    if record["machine"]["device"] != "cpu" or record["machine"]["threads"] != 1:
        return []
    return [
        name
        for name, shape in record["shapes"].items()
        if any(times["cpu_median_ms"] < QUIET * times["median_ms"] for times in shape["timings"].values())
    ]


def _head(record: Mapping[str, Any]) -> str:
    machine, git = record["machine"], record["git"]
    where = f"{machine['cpu']}, {machine['usable_cores']} cores, {machine['threads']} thread(s)"
    if "gpu" in machine:
        where = f"{machine['gpu']} (CUDA {machine['cuda']}); host {where}"
    commit = git.get("commit", "unknown") + (" with changes" if git.get("changed") else "")
    lines = [
        f"# Speed on {machine['device']}",
        "",
        f"* Machine: {where}; load {machine['load_average_at_start'][0]:.1f} at the start",
        f"* torch {machine['torch']}, gpytorch {machine['gpytorch']}, Python {machine['python']}; float64",
        f"* {record['date']}, commit {commit}, {record['seconds']:.0f} s",
        f"* `{record['command']}`",
    ]
    if noisy := disturbances(record):
        lines.append(f"* **The machine was not quiet**: other processes took part of the core at {', '.join(noisy)}.")
    return "\n".join(lines)


def _sizes(name: str, sizes: Mapping[str, Any]) -> str:
    return (
        f"{name}: {sizes['n_layers']} layers, M={sizes['size']}, B={sizes['batch']}, T={sizes['n_samples']},"
        f" D={sizes['n_columns']}, width {sizes['width']}"
    )


def _asked(targets: Mapping[str, float | None], is_cuda: bool) -> str:
    if is_cuda:
        return "-" if targets["cuda_ms"] is None else f"at most {targets['cuda_ms']:g} ms"
    if targets["speedup"] is None:
        return "-"
    return f"at least {targets['speedup']:g}x, at most {targets['over_floor']:g}x"


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.3g}{unit}" if value < 100 else f"{value:,.0f}{unit}"


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
