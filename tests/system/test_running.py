"""Settings of PyTorch are restored, whatever overlaps."""

import torch

from sodgp.system.running import cpu_threads, gradients, idle_cores


def test_blocks_that_overlap_leave_the_number_of_threads_as_it_was(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    first, second = cpu_threads(before + 1), cpu_threads(before + 2)
    first.__enter__()
    second.__enter__()
    assert torch.get_num_threads() == before + 2
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == before
    with cpu_threads(before + 1):
        with cpu_threads(before + 2):
            pass
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_no_more_threads_than_the_machine_has(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with cpu_threads(10**6):
        assert torch.get_num_threads() == 1


def test_gradients_are_recorded_in_inference_mode():
    with torch.inference_mode(), gradients():
        x = torch.ones(1, requires_grad=True)
        (2.0 * x).sum().backward()
    assert x.grad.item() == 2.0


def test_idle_cores_are_those_that_do_nothing(monkeypatch, tmp_path):
    def stat(*busy):
        lines = [f"cpu{core} {ticks} 0 5 1000 7 0 0 0 0 0" for core, ticks in enumerate(busy)]
        return "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *lines, "intr 5 0 0"])

    reads = iter([stat(5, 5, 5, 5), stat(15, 5, 6, 14), stat(5, 5, 5, 5), stat(15, 15, 15, 15)])
    monkeypatch.setattr("sodgp.system.running._STAT", type("Stat", (), {"read_text": lambda: next(reads)}))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2, 3})
    monkeypatch.setattr("joblib.cpu_count", lambda only_physical_cores: 4)
    assert idle_cores(0.0) == 2
    assert idle_cores(0.0) == 1
    monkeypatch.setattr("sodgp.system.running._STAT", tmp_path / "missing")
    assert idle_cores(0.0) == 1


def test_auto_is_one_thread_but_for_fits():
    with cpu_threads("auto"):
        assert torch.get_num_threads() == 1
