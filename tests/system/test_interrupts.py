"""Ctrl-C takes effect between two iterations, and a second one at once."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from sodgp.system.running import deferred_interrupt, only_whole


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_stops():
    with deferred_interrupt() as interrupt:
        assert not interrupt.requested
        press()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            press()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_handlers_of_the_program_and_other_threads_are_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    try:
        with deferred_interrupt() as interrupt:
            press()
        assert not interrupt.requested
    finally:
        signal.signal(signal.SIGINT, before)

    def in_a_thread():
        with deferred_interrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert seen == ["mine", before]


def test_many_fits_stop_with_the_one_that_was_interrupted():
    whole, broken = (SimpleNamespace(history_=SimpleNamespace(stopped=s)) for s in ("max_iter", "interrupted"))
    with only_whole([whole]):
        pass
    with pytest.raises(KeyboardInterrupt), only_whole([whole, broken]):
        pass
