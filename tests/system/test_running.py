"""Settings of PyTorch are restored, whatever overlaps."""

import torch

from sodgp.system.running import cpu_threads, gradients


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
