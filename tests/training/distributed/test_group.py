"""Many processes that train one model: the same numbers as in one, and one end for all."""

import multiprocessing
import threading
from contextlib import contextmanager

import pytest
import rank_checks
import torch

from sodgp.estimator import many
from sodgp.training.distributed import group

CONTEXT = multiprocessing.get_context("forkserver")
# sympy is what PyTorch imports in a first fit.
CONTEXT.set_forkserver_preload(["sodgp.estimator.many", "sodgp.training.run", "sympy"])


def spawned(folder, count, *checks, lost=()):
    """What each process found in these checks; `lost` ones die before they can tell."""
    folder.mkdir(parents=True)
    ranks = [CONTEXT.Process(target=rank_checks.work, args=(checks, r, count, str(folder))) for r in range(count)]
    for process in ranks:
        process.start()
    for rank, process in enumerate(ranks):
        if rank not in lost:
            process.join(180)
    for process in ranks:
        if process.is_alive():
            process.kill()
    return [None if r in lost else torch.load(folder / f"{r}.pt", weights_only=False) for r in range(count)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    checks = [["steps"], ["sixty_steps"], ["together"], ["refused"]]
    return spawned(tmp_path_factory.mktemp("ranks") / "two", 2, *checks)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return spawned(tmp_path_factory.mktemp("ranks") / "four", 4, ["steps"])


def assert_close(found, expected, tolerance):
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


@pytest.mark.parametrize("name", rank_checks.STEPS)
def test_a_step_of_many_processes_is_that_of_one(two, four, name):
    alone = rank_checks.one_step(name)
    assert alone["gradients"]
    for found in [*two, *four]:
        mine = found["steps"][name]
        assert list(mine["terms"]) == list(alone["terms"])
        for term, value in alone["terms"].items():
            assert float(mine["terms"][term]) == pytest.approx(float(value), rel=1e-12)
        assert mine["gradients"].keys() == alone["gradients"].keys()
        largest = max(float(gradient.abs().max()) for gradient in alone["gradients"].values())
        for parameter, gradient in alone["gradients"].items():
            assert float((mine["gradients"][parameter] - gradient).abs().max()) <= 1e-12 * largest
        for mine_moved, moved in zip(mine["buffers"], alone["buffers"], strict=True):
            assert_close(mine_moved, moved, 1e-12)


@pytest.mark.parametrize("objective", ["bound", "predictive"])
def test_sixty_steps_end_where_one_process_ends(two, objective):
    alone = rank_checks.fitted(rank_checks.SoD(objective=objective))
    first, second = (found["sixty_steps"][objective] for found in two)
    assert torch.equal(first["parameters"], second["parameters"])
    assert_close(first["parameters"], alone["parameters"], 1e-8)
    assert first["bound"] == pytest.approx(alone["bound"], rel=1e-8)


def test_rows_on_a_disk_are_divided_too(two):
    alone = rank_checks.fitted(data=(rank_checks.open_rows(rank_checks.X, rank_checks.Y),))
    for found in two:
        assert_close(found["sixty_steps"]["rows on a disk"]["parameters"], alone["parameters"], 1e-8)


def test_where_the_store_does_not_answer_the_roll_call_ends_in_time(monkeypatch):
    over = threading.Event()

    class Cut:
        def set(self, key, value):
            over.wait()
            raise RuntimeError("no answer")

    monkeypatch.setattr(group, "_ROLL_CALL", 0.05)
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", Cut)
    error = group._lost("a group", 1, 3, "for 5 s")
    over.set()
    assert str(error).startswith("rank 0, 2 of 3 has gone, or did not answer for 5 s")


@pytest.mark.gpu
def test_the_sums_of_nccl_leave_one_process_as_it_is(monkeypatch, tmp_path):
    """One GPU is for one process, which has everything: the path of many gives its bits."""

    def fitted():
        return rank_checks.fitted(device="cuda")["parameters"]

    @contextmanager
    def a_group_of_one():
        yield group.Group(torch.distributed.new_group(), 60.0)

    alone = fitted()
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    try:
        monkeypatch.setattr(many, "ranks_here", a_group_of_one)
        assert torch.equal(fitted(), alone)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("change", ["nan", "fails"])
def test_a_failure_in_one_process_rolls_all_back(two, change):
    first, second = (found["together"][change] for found in two)
    assert first["rollbacks"] == second["rollbacks"] == 1
    assert first["iteration"] == 30
    assert torch.equal(first["parameters"], second["parameters"])


def test_a_failure_that_stays_is_raised_by_all(two):
    first, second = (found["together"]["always"] for found in two)
    assert first.startswith("NumericalError: on rank 1 of 2: no factor. Training went back 6 times")
    assert second.startswith("CholeskyError: no factor. Training went back 6 times")


@pytest.mark.parametrize("change", ["ctrl_c", "twice_ctrl_c"])
def test_ctrl_c_in_one_process_ends_all_with_a_model(two, change):
    first, second = (found["together"][change] for found in two)
    assert first["stopped"] == second["stopped"] == "interrupted"
    assert torch.equal(first["parameters"], second["parameters"])


def test_the_time_limit_of_one_process_ends_all(two):
    first, second = (found["together"]["late"] for found in two)
    assert (first["stopped"], first["iteration"]) == (second["stopped"], second["iteration"]) == ("max_minutes", 1)
    assert torch.equal(first["parameters"], second["parameters"])


def test_callbacks_of_the_first_process_end_all(two):
    first, second = (found["together"]["stop"] for found in two)
    assert (first["stopped"], first["iteration"]) == (second["stopped"], second["iteration"]) == ("callback", 50)
    assert [found["together"]["calls"] for found in two] == [[1, 50], []]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("breaks", ["RanksError: on rank 1 of 2: OSError: out of something", "OSError: out of something"]),
        ("drift", ["RanksError: the parameters of rank 1 differ from those of rank 0 of 2"] * 2),
        ("bad data", ["RanksError: on rank 1 of 2: InputError: Input X contains NaN", "InputError: "]),
        ("other data", ["RanksError: the data, options or initial parameters of rank 1 differ"] * 2),
    ],
)
def test_what_goes_wrong_in_one_process_is_an_error_in_all(two, what, said):
    for found, beginning in zip(two, said, strict=True):
        assert found["together"][what].startswith(beginning)


def test_without_a_seed_all_have_that_of_the_first(two):
    first, second = (found["together"]["no seed"] for found in two)
    assert torch.equal(first["parameters"], second["parameters"])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("all labels", "objective='collapsed', the default up to 2,000 rows, ties the rows of a step together"),
        ("default", "objective='collapsed', the default up to 2,000 rows, ties the rows of a step together"),
        ("joint", "coupling='joint' ties the rows of a step together"),
        ("sghmc", "inference='sghmc' cannot be trained by many processes"),
        ("mean_field", "inference='mean_field' cannot be trained by many processes"),
        ("members", "n_members=2: many processes train one model at a time"),
        ("restarts", "n_restarts=2: many processes train one model at a time"),
        ("rows", "a step has 1 rows outside the subset, too few for 2 processes"),
    ],
)
def test_what_many_processes_cannot_train_is_refused_by_name(two, case, said):
    for found in two:
        assert found["refused"][case].startswith(("ConfigurationError: " + said, "RanksError: on rank 0"))
        assert said in found["refused"][case]


@pytest.mark.parametrize("loss", ["killed", "hung"])
def test_a_lost_process_is_named_and_its_fit_resumed(tmp_path, loss):
    whole = rank_checks.fitted()
    (first, _) = spawned(tmp_path / "lost", 2, [loss, str(tmp_path / "checkpoints")], lost=[1])
    assert first[loss].startswith("RanksError: rank 1 of 2 has gone, or did not answer")
    count = {"killed": 2, "hung": 3}[loss]
    found = spawned(tmp_path / "again", count, ["resumed", str(tmp_path / "checkpoints")])
    for each in found:
        assert each["resumed"]["iteration"] == 60
        assert_close(each["resumed"]["parameters"], whole["parameters"], 1e-8)
        assert torch.equal(each["resumed"]["parameters"], found[0]["resumed"]["parameters"])
