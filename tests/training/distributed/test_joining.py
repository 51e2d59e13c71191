"""Processes find each other through a launcher's variables, and the one that does not come is named."""

import socket

import pytest
import torch

from sodgp.errors import ConfigurationError, RanksError
from sodgp.training.distributed.contract import ALONE
from sodgp.training.distributed.group import ranks_here
from sodgp.training.distributed.joining import process_group, started_with

CPU = torch.device("cpu")


@pytest.fixture
def launched(monkeypatch):
    def launch(rank, count):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        variables = {"RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in {**variables, "SODGP_RANKS_TIMEOUT": 1}.items():
            monkeypatch.setenv(name, str(value))

    return launch


def test_without_a_launcher_the_command_is_told(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert started_with() == 1
    with pytest.raises(ConfigurationError, match=r"sets RANK.*python -m torch\.distributed\.run"), process_group(CPU):
        pass


def test_one_process_is_alone(launched):
    launched(0, 1)
    with process_group(CPU) as rank, ranks_here() as ranks:
        assert rank == 0
        assert ranks is ALONE
    assert not torch.distributed.is_initialized()


def test_a_process_that_does_not_come_is_named(launched):
    launched(0, 3)
    assert started_with() == 3
    with pytest.raises(RanksError, match="rank 1, 2 of 3 did not arrive within 1 s"), process_group(CPU):
        pass


def test_where_nobody_is_the_address_is_named(launched):
    launched(1, 2)
    with (
        pytest.raises(RanksError, match=r"rank 1 of 2 found nobody at 127\.0\.0\.1:\d+ within 1 s"),
        process_group(CPU),
    ):
        pass


@pytest.mark.parametrize("seconds", ["soon", "0", "-1"])
def test_the_patience_is_a_number(launched, monkeypatch, seconds):
    launched(0, 2)
    monkeypatch.setenv("SODGP_RANKS_TIMEOUT", seconds)
    with pytest.raises(ConfigurationError, match="must be a number of seconds"), process_group(CPU):
        pass
