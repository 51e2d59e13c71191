"""Work in other processes: order, warnings, errors, and processes that die."""

import os
import threading
import warnings

import joblib
import pytest

from sodgp.errors import ConfigurationError, NumericalWarning, WorkerError
from sodgp.system.jobs import in_jobs, job_count


def doubled(number):
    if number == 2:
        warnings.warn("two", NumericalWarning, stacklevel=1)
    return 2 * number, os.getpid()


def fails(number):
    raise ValueError(f"no {number}")


def dies(number):
    os._exit(number)


def test_none_is_one_job_unless_a_block_says_otherwise():
    assert job_count(None) == 1
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert job_count(None) == 3
        assert job_count(1) == 1


def test_one_job_works_here_and_only_when_it_is_asked():
    asked = []
    results = in_jobs(lambda number: asked.append(number) or number, [(1,), (2,)], None)
    assert asked == []
    assert next(results) == 1
    assert asked == [1]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_results_come_in_order_with_the_warnings(backend):
    with joblib.parallel_config(backend=backend), pytest.warns(NumericalWarning, match="two"):
        found = list(in_jobs(doubled, [(number,) for number in range(4)], 2))
    assert [number for number, _ in found] == [0, 2, 4, 6]
    assert all((process != os.getpid()) == (backend == "loky") for _, process in found)


def test_errors_of_other_processes_are_raised_here():
    with pytest.raises(ValueError, match="no 1"):
        list(in_jobs(fails, [(1,)], 2))
    with pytest.raises(ConfigurationError, match="sent to other processes"):
        list(in_jobs(doubled, [(threading.Lock(),)], 2))


def test_a_process_that_dies_is_an_error_that_says_so():
    with pytest.raises(WorkerError, match="died before it was done"):
        list(in_jobs(dies, [(1,), (2,)], 2))


class KilledWorker(Exception):  # noqa: N818
    """As Dask's."""


def kills(number):
    raise KilledWorker(number)


def test_deaths_are_told_by_the_names_of_other_backends():
    with pytest.raises(WorkerError, match="a process that trained a model died"):
        list(in_jobs(kills, [(1,), (2,)], 2))


def test_a_backend_that_gives_no_generator_works_on_some_at_a_time(monkeypatch):
    asked = []

    def tasks():
        for number in range(6):
            asked.append(number)
            yield (number,)

    monkeypatch.setattr(joblib._parallel_backends.ThreadingBackend, "supports_return_generator", False)
    with joblib.parallel_config(backend="threading"):
        results = in_jobs(_same, tasks(), 2)
        assert next(results) == 0
        assert asked == [0, 1, 2, 3]
        assert list(results) == [1, 2, 3, 4, 5]


def _same(number):
    return number
