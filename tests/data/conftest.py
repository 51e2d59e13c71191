from __future__ import annotations

import socket
from pathlib import Path

import platformdirs
import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no SODGP_DATA, and no way out of this machine."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(folder))
    monkeypatch.delenv("SODGP_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    connect = socket.socket.connect

    def connect_here_only(self: socket.socket, address: tuple[str, int]) -> None:
        assert address[0] == "127.0.0.1", f"a test tried to reach {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here_only)
    return folder


@pytest.fixture
def shared() -> Path:
    """The folder with the benchmark files, which a checkout need not have."""
    if not (SHARED / "index.json").is_file():
        pytest.skip("the benchmark files (../shared/data beside the repository) are not on this machine")
    return SHARED
