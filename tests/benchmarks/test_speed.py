"""The speed benchmark runs, counts what it says it counts, and stores what it measured. No time is asserted."""

import json
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.paper.tutorial import TutorialDeepGP
from benchmarks.speed import predictions
from benchmarks.speed.__main__ import main
from benchmarks.speed.contestants import COMPILED, FLOOR, OURS, PEER, REPLICATED, contestants
from benchmarks.speed.floor import floor_step, floor_tensors
from benchmarks.speed.growth import AXES, measure_growth, slope
from benchmarks.speed.machine import describe_machine
from benchmarks.speed.measure import interleaved_rounds, warm_up
from benchmarks.speed.memory import cpu_peak
from benchmarks.speed.one_shape import measure_at_once, measure_shape
from benchmarks.speed.ours import LEARNING_RATE, _problem, our_replicated_step, our_step
from benchmarks.speed.peers import gpytorch_step
from benchmarks.speed.profile import tally
from benchmarks.speed.report import disturbances, kernels, markdown, ratios, summary
from benchmarks.speed.shapes import DEFAULT_SHAPES, SHAPES, synthetic_data

from sodgp.inference.dsvi import DSVI
from sodgp.inference.sod import SoD
from sodgp.training.run import Settings, fit

CPU = torch.device("cpu")
TINY = SHAPES["tiny"]
TINY3 = replace(TINY, n_layers=3)


class Calls(TorchFunctionMode):
    """Keeps every torch call with the shapes of its tensors."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        shapes = tuple(tuple(a.shape) for a in args if isinstance(a, torch.Tensor))
        name = getattr(func, "__name__", str(func))
        if name != "__get__":
            self.seen.append((name, shapes))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_floor_makes_the_specified_calls(n_layers):
    shape = replace(TINY, n_layers=n_layers)
    run = floor_step(shape, CPU)
    with Calls() as calls:
        run()
    M, B, T, D, W = shape.size, shape.batch, shape.n_samples, shape.n_columns, shape.width
    expected = Counter()
    for layer in range(1, n_layers + 1):
        t = () if layer == 1 else (T,)
        d = D if layer == 1 else W
        expected["linalg_cholesky_ex", ((*t, M, M),)] += 3
        expected["linalg_solve_triangular", ((*t, M, M), (*t, M, M))] += 3
        expected["matmul", ((*t, M, M), (*t, M, B))] += 3 * (2 if layer == n_layers else 1)
        expected["matmul", ((*t, M, d), (*t, d, B))] += 3
        expected["exp", ((*t, M, B),)] += 2
    assert Counter(calls.seen) == expected


def test_floor_tensors_can_be_factorised():
    for layer in floor_tensors(TINY3, CPU):
        assert layer.factor.shape == layer.K_ss.shape
        assert int(torch.linalg.cholesky_ex(layer.K_ss).info.max()) == 0
        assert layer.K_ss.dtype == torch.float64


@pytest.mark.parametrize("shape", [TINY, TINY3, replace(TINY, batch_rows=None)], ids=["batch", "three", "full"])
def test_every_contestant_steps(shape):
    data = synthetic_data(shape, CPU)
    rows = contestants(shape, CPU)
    plain = [OURS, "sod_marginal", "sod_predictive", "sod_default", "dsvi"]
    compiled = [COMPILED, "sod_predictive_compiled", "sod_default_compiled"]
    assert [row.name for row in rows] == [*plain, *compiled, PEER, FLOOR]
    for row in rows:
        if row.name in compiled:
            continue  # the tests' run-time check of shapes cannot be compiled; see tests/training/test_compile.py
        step = row.build(shape, data, CPU)
        for _ in range(3):
            value = step()
        if row.name == PEER:
            assert math.isfinite(float(value))
        elif row.name != FLOOR:
            assert all(bool(torch.isfinite(v).all()) for v in value.values())


def test_our_step_is_the_step_of_fit():
    """Same seeds, same parameters after three steps: what is timed is what a user's fit runs."""
    data, inference = synthetic_data(TINY, CPU), SoD()
    step = our_step(inference, TINY, data, CPU)
    for _ in range(3):
        step()
    settings = Settings(3, TINY.batch, TINY.n_samples, LEARNING_RATE, "constant", CPU)
    problem = _problem(inference, TINY, data, 0)
    (result,) = fit(inference, [problem], settings)
    for timed, trained in zip(step.parameters, result.model.parameters(), strict=True):
        # The training loop rounds the learning rate to single precision.
        torch.testing.assert_close(timed.detach(), trained, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("inference", [SoD(), SoD(coupling="marginal"), DSVI()])
def test_replicates_step_together(inference):
    step = our_replicated_step(inference, TINY, CPU, replicates=3, captured=False)
    terms = step()
    assert all(value.shape == (3,) for value in terms.values())


def test_the_peer_has_the_same_sizes():
    model = TutorialDeepGP(list(TINY3.input_dims), TINY3.size).double()
    strategies = [layer.variational_strategy for layer in model.layers]
    assert [tuple(s.inducing_points.shape) for s in strategies] == [(2, 6, 3), (2, 6, 2), (6, 2)]
    state = torch.random.get_rng_state()
    gpytorch_step(TINY3, synthetic_data(TINY3, CPU), CPU)
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_shapes_are_those_of_the_data_sets():
    assert DEFAULT_SHAPES == ("energy2", "energy3", "boston3", "protein3", "year3")
    sizes = {name: (s.n_rows, s.n_columns, s.width, s.size, s.n_layers, s.batch) for name, s in SHAPES.items()}
    assert sizes["energy2"] == (691, 8, 8, 50, 2, 641)
    assert sizes["energy3"] == (691, 8, 8, 50, 3, 641)
    assert sizes["boston3"] == (455, 13, 13, 50, 3, 405)
    assert sizes["protein3"] == (41_157, 9, 9, 100, 3, 2000)
    assert sizes["year3"] == (463_810, 90, 30, 100, 3, 2000)
    assert all(s.n_samples == 10 for name, s in SHAPES.items() if name != "tiny")
    data = synthetic_data(TINY, CPU)
    assert (len(data.X_s), len(data.X_r)) == (TINY.size, TINY.n_rest)


def test_rounds_are_interleaved():
    order = []
    steps = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timings = interleaved_rounds(steps, {"a": 2, "b": 1}, 3, CPU)
    assert "".join(order) == "aab" * 3
    assert len(timings["a"].wall_ms) == len(timings["b"].cpu_ms) == 3
    assert timings["a"].min_ms <= timings["a"].median_ms
    assert warm_up(steps["a"], CPU) > 1


def test_ratios():
    def times(median, best, cpu):
        return {"median_ms": median, "min_ms": best, "cpu_median_ms": cpu}

    given = {OURS: times(2.0, 1.0, 1.5), PEER: times(8.0, 7.0, 6.0), FLOOR: times(1.0, 0.8, 0.75)}
    many = {REPLICATED: times(3.0, 3.0, 3.0), f"{REPLICATED}_compiled": times(3.0, 3.0, 3.0)}
    assert ratios({**given, **many}) == {
        OURS: {
            "speedup": 4.0,
            "over_floor": 2.0,
            "speedup_of_min": 7.0,
            "over_floor_of_min": 1.25,
            "speedup_of_cpu": 4.0,
            "over_floor_of_cpu": 2.0,
        }
    }


def test_slopes():
    assert slope([1, 2, 4, 8], [5 * x**3 for x in (1, 2, 4, 8)]) == pytest.approx(3.0)
    axes = {symbol: (name, (2, 4)) for symbol, (name, _) in AXES.items()}
    record = measure_growth(CPU, 1, base=TINY, axes=axes)
    assert set(record["axes"]) == set("BMTDL")
    assert all(math.isfinite(axis["slope"]) for axis in record["axes"].values())
    assert all(len(axis["points"]["4"]["wall_ms"]) == 1 for axis in record["axes"].values())


def test_memory_is_measured_in_a_process_of_its_own():
    """At least one [T, M, B] tensor of the second layer is held."""
    shape = replace(TINY, size=50, batch_rows=5000, n_rows=6000, n_samples=4)
    assert cpu_peak(shape, OURS, 1) > 50 * 5000 * 4 * 8 / 2**20


def test_a_failure_in_that_process_is_told():
    with pytest.raises(RuntimeError, match="memory of nobody at tiny"):
        cpu_peak(TINY, "nobody", 1)


def test_a_run_is_stored_and_reported(tmp_path, capsys):
    path = tmp_path / "results" / "speed-cpu.json"
    chosen = [OURS, "sod_marginal", "dsvi", PEER, FLOOR]
    options = ["--repeats", "2", "--no-memory", "--out", str(path)]
    arguments = ["--shapes", "tiny", "--contestants", *chosen, *options]
    assert main(arguments) == 0
    record = json.loads(path.read_text())
    assert {"cpu", "cores", "torch", "gpytorch", "threads"} <= set(record["machine"])
    assert {"date", "git", "seconds"} <= set(record)
    assert record["command"] == f"python -m benchmarks.speed {' '.join(arguments)}"
    tiny = record["shapes"]["tiny"]
    assert {len(times["wall_ms"]) for times in tiny["timings"].values()} == {2}
    assert set(tiny["timings"]) == set(chosen)
    assert tiny["ratios"][OURS]["over_floor"] == pytest.approx(
        tiny["timings"][OURS]["median_ms"] / tiny["timings"][FLOOR]["median_ms"]
    )
    report = path.with_suffix(".md").read_text()
    assert report == markdown(record)
    assert "GPyTorch DSVI" in report
    assert "tiny: 2 layers, M=6, B=16, T=2, D=3, width 2" in report
    assert str(path) in capsys.readouterr().out


def test_only_some_contestants():
    measured = measure_shape(TINY, CPU, repeats=1, memory=False, only=[OURS, FLOOR])
    assert set(measured["timings"]) == {OURS, FLOOR}
    assert "speedup" not in measured["ratios"][OURS]
    record = {"machine": describe_machine(CPU), "shapes": {"tiny": measured}}
    record |= {"git": {}, "date": "today", "seconds": 1.0, "command": "none"}
    assert "commit unknown" in markdown(record)


def test_shapes_measured_at_once():
    options = {"repeats": 1, "threads": 1, "memory": False, "only": [FLOOR]}
    measured = dict(measure_at_once(["tiny", "boston3"], CPU, options))
    assert {name: shape["shape"] for name, shape in measured.items()} == {
        name: SHAPES[name].describe() for name in ("tiny", "boston3")
    }
    # The first waits for the second, which is gone.
    with pytest.raises(RuntimeError, match="measurement of nobody ended with an error"):
        list(measure_at_once(["tiny", "nobody"], CPU, options))


def test_compiled_and_replicated_rows_are_in_the_summary():
    def times(label):
        return {"label": label, "median_ms": 1.0, "min_ms": 1.0, "cpu_median_ms": 1.0}

    labels = {OURS: "plain", COMPILED: "compiled", REPLICATED: "SoD, 20 replicates", PEER: "peer", FLOOR: "floor"}
    timings = {name: times(label) for name, label in labels.items()}
    shape = {"shape": SHAPES["energy2"].describe(), "timings": timings, "ratios": ratios(timings)}
    lines = summary({"machine": {"device": "cuda"}, "shapes": {"energy2": shape}}).splitlines()
    assert [line.split("|")[-2].strip() for line in lines[-3:]] == ["at most 0.6 ms"] * 2 + ["at most 2 ms"]
    assert "width 8, compiled" in lines[-2]
    assert "SoD, 20 replicates, together" in lines[-1]


def test_a_disturbed_machine_is_named():
    def shape(cpu):
        return {"timings": {OURS: {"median_ms": 10.0, "cpu_median_ms": cpu}}}

    record = {"machine": {"device": "cpu", "threads": 1}, "shapes": {"calm": shape(9.9), "noisy": shape(6.0)}}
    assert disturbances(record) == ["noisy"]
    record["machine"]["threads"] = 2
    assert disturbances(record) == []


def test_a_missing_device_is_told(tmp_path, capsys):
    assert main(["--device", "cuda", "--out", str(tmp_path / "speed.json")]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_a_profile_that_cannot_be_made_is_refused(capsys):
    assert main(["--shapes", "tiny", "--profile"]) == 2
    assert "--profile is of sod_ancestral_compiled" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns within itself
def test_a_run_on_cuda(tmp_path):
    path = tmp_path / "speed-cuda.json"
    assert main(["--device", "cuda", "--shapes", "tiny", "--repeats", "2", "--profile", "--out", str(path)]) == 0
    tiny = json.loads(path.read_text())["shapes"]["tiny"]
    assert "matrix product" in tiny["profile"]["kinds"]
    assert {OURS, f"{OURS}_eager", REPLICATED, PEER, FLOOR} <= set(tiny["timings"])
    assert tiny["peak_memory_mib"][OURS] > 0


def test_kernels_are_told_apart():
    events = [
        ("void potrf_kernel<double>", 30.0, 2),
        ("triton_poi_fused_mul_3", 10.0, 4),
        ("cutlass_80_tensorop_d884gemm", 20.0, 2),
        ("void trsm_batch_left_kernel", 40.0, 2),
        ("something_new", 1.0, 1),
    ]
    rows = tally(events, steps=2)
    assert list(rows) == [
        "triangular solve", "Cholesky factorisation", "matrix product", "fused by the compiler", "other small kernel",
    ]  # fmt: skip
    assert rows["triangular solve"] == (20.0, 1.0)
    page = kernels({"kinds": rows, "dearest": [("void trsm", 20.0, 1.0)]})
    assert "| together" in page
    assert "* `void trsm`: 20 µs, 1x" in page


def test_predictions_are_timed_beside_the_peers(capsys):
    calls = predictions.contestants(np.zeros((3, predictions.N_INPUTS)), size=6)
    assert list(calls) == list(predictions.NAMES)
    mean, _ = calls["std"]()
    assert_array_equal(calls["mean"](), mean)
    assert calls["anew"]()[0].shape == (predictions.N_SAMPLES, 3, 1)
    assert predictions.main(["--rows", "1", "--repeats", "1", "--size", "6"]) == 0
    assert "| 1 | " in capsys.readouterr().out
