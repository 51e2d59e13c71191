"""Many fits in one process: memory must not grow with their number."""

from benchmarks.reliability import soak


def test_memory_does_not_grow_with_the_number_of_fits():
    """The small version of ``python -m benchmarks.reliability.soak``."""
    found = soak.soak(rounds=20, warm_up=10, every=2)
    assert found["growth"] <= soak.LIMIT


def test_a_leak_would_be_seen(monkeypatch):
    kept = []

    def leaking(number, folder):
        kept.append(bytearray(2 * 10**7))

    monkeypatch.setattr(soak, "one", leaking)
    assert soak.soak(rounds=20, warm_up=1, every=4)["growth"] > soak.LIMIT
