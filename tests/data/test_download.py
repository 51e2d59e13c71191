"""Downloads, from a server on this machine: whole, resumed, cut short, wrong, missing, unreachable."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import re
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from sodgp.data import DataUnavailableError, canonical_csv, convert, load
from sodgp.data.catalogue import CATALOGUE, Entry, Source
from sodgp.data.download import transfer
from sodgp.errors import InputError
from sodgp.system.files import alone_in

TABLE = np.array([[1.0, 0.1, 3.0], [2.0, 1e-7, -4.5]])
WINE_TEXT = b'"a";"b";"c"\n1;0.1;3\n2;1e-7;-4.5\n'


class Server(ThreadingHTTPServer):
    """Serves `body` at every path; its attributes say how badly."""

    daemon_threads = True
    body = b""
    status = 200
    knows_range = True
    sends_length = True
    wrong_range = False
    most_bytes: int | None = None  # of one answer; then the connection closes
    ranges: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/set.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.ranges.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.knows_range else 0
        if start and start >= len(server.body):
            self.send_error(416)
            return
        rest = server.body[start:]
        self.send_response(206 if start else 200)
        if start:
            first = start + server.wrong_range
            self.send_header("Content-Range", f"bytes {first}-{len(server.body) - 1}/{len(server.body)}")
        if server.sends_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.most_bytes])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.ranges = []
        running.body = archive({"winequality-red.csv": WINE_TEXT})
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def toy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A set that the server offers in the form of UCI's wine file."""
    digest = hashlib.sha256(canonical_csv(["a", "b", "c"], TABLE)).hexdigest()
    entry = Entry("toy", ("a", "b", "c"), 2, digest, Source(server.url, convert.wine))
    monkeypatch.setitem(CATALOGUE, "toy", entry)
    return entry


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for name, contents in members.items():
            bundle.writestr(name, contents)
    return buffer.getvalue()


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download_is_checked_kept_and_not_repeated(toy: Entry, server: Server, cache: Path) -> None:
    first, second = load("toy"), load("toy")
    np.testing.assert_array_equal(np.column_stack([first.X, first.y]), TABLE)
    np.testing.assert_array_equal(first.X, second.X)
    assert server.ranges == [None]
    assert listing(cache) == ["toy.csv.gz"]
    assert gzip.decompress((cache / "toy.csv.gz").read_bytes()) == canonical_csv(toy.columns, TABLE)


def test_broken_connection_is_resumed_within_the_call(toy: Entry, server: Server, cache: Path) -> None:
    server.most_bytes = half = len(server.body) // 2 + 1
    load("toy")
    assert server.ranges == [None, f"bytes={half}-"]
    assert listing(cache) == ["toy.csv.gz"]


def test_truncated_download_leaves_a_part_that_the_next_call_resumes(toy: Entry, server: Server, cache: Path) -> None:
    server.most_bytes = 10
    with pytest.raises(DataUnavailableError, match=rf"30 of {len(server.body)} bytes arrived.*What arrived is kept"):
        load("toy")
    assert listing(cache) == ["toy.zip.part"]
    server.most_bytes = None
    load("toy")
    assert server.ranges == [None, "bytes=10-", "bytes=20-", "bytes=30-"]
    assert listing(cache) == ["toy.csv.gz"]


def test_two_processes_at_once_have_a_part_each(toy: Entry, server: Server, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "toy.zip.part").write_bytes(b"of the other")
    with alone_in(cache) as is_alone:  # as another process that downloads
        assert is_alone
        np.testing.assert_array_equal(load("toy").X, TABLE[:, :2])
    assert server.ranges == [None]
    assert listing(cache) == ["toy.csv.gz", "toy.zip.part"]
    assert (cache / "toy.zip.part").read_bytes() == b"of the other"


def test_truncation_without_a_length_is_found_in_the_archive(toy: Entry, server: Server, cache: Path) -> None:
    server.sends_length, server.most_bytes = False, 40
    with pytest.raises(DataUnavailableError, match=r"thrown away.*not a whole zip archive"):
        load("toy")
    assert listing(cache) == []


def test_server_that_ignores_range_begins_again(toy: Entry, server: Server, cache: Path) -> None:
    cache.mkdir()
    (cache / "toy.zip.part").write_bytes(b"stale")
    server.knows_range = False
    load("toy")
    assert server.ranges == ["bytes=5-"]
    assert listing(cache) == ["toy.csv.gz"]


@pytest.mark.parametrize("size", [0, 5])
def test_part_as_long_as_the_file_begins_again(toy: Entry, server: Server, cache: Path, size: int) -> None:
    cache.mkdir()
    (cache / "toy.zip.part").write_bytes(bytes(len(server.body) + size))
    load("toy")
    assert server.ranges[-1] is None
    assert listing(cache) == ["toy.csv.gz"]


def test_answer_with_another_range_begins_again(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(server.body[:7])
    server.wrong_range = True
    transfer(server.url, part)
    assert server.ranges == ["bytes=7-", None]
    assert part.read_bytes() == server.body


def test_stale_part_of_another_file_is_thrown_away(toy: Entry, server: Server, cache: Path) -> None:
    cache.mkdir()
    (cache / "toy.zip.part").write_bytes(b"x" * 60)
    with pytest.raises(DataUnavailableError, match="thrown away"):
        load("toy")
    assert listing(cache) == []
    load("toy")


def test_wrong_checksum_leaves_nothing(toy: Entry, server: Server, cache: Path) -> None:
    server.body = archive({"winequality-red.csv": WINE_TEXT.replace(b"0.1", b"0.2")})
    with pytest.raises(DataUnavailableError, match=r"thrown away.*sha256.*put it as toy\.csv\.gz"):
        load("toy")
    assert listing(cache) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>be right back</html>", "not a whole zip archive"),
        (archive({"other.txt": b""}), "holds no file winequality-red.csv"),
        (archive({"winequality-red.csv": b"a;b\n1;x\n"}), "not a table of numbers"),
        (archive({"winequality-red.csv": b"a;b;c\n"}), "does not fit"),
        (archive({"winequality-red.csv": b"a;b\n1;2\n"}), "does not fit"),
    ],
)
def test_another_file_leaves_nothing(toy: Entry, server: Server, cache: Path, body: bytes, message: str) -> None:
    server.body = body
    with pytest.raises(DataUnavailableError, match=message):
        load("toy")
    assert listing(cache) == []


@pytest.mark.parametrize(("status", "words"), [(404, "404 Not Found"), (503, "503 Service Unavailable")])
def test_refusal_of_the_server(toy: Entry, server: Server, cache: Path, status: int, words: str) -> None:
    server.status = status
    with pytest.raises(DataUnavailableError, match=words) as caught:
        load("toy")
    assert "SODGP_DATA" in str(caught.value)
    assert listing(cache) == []


def test_no_network(toy: Entry, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # bound but not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/set.zip"
        monkeypatch.setitem(CATALOGUE, "toy", dataclasses.replace(toy, source=Source(url, convert.wine)))
        with pytest.raises(DataUnavailableError, match=r"No connection.*offline"):
            load("toy")
    assert listing(cache) == []


def test_unknown_host_is_offline(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise socket.gaierror("name not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    source = Source("http://nowhere.invalid/set.zip", convert.wine)
    monkeypatch.setitem(CATALOGUE, "toy", dataclasses.replace(toy, source=source))
    with pytest.raises(DataUnavailableError, match=r"No connection.*name not known"):
        load("toy")


def test_silent_server_times_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DataUnavailableError, match="timed out"):
            transfer(url, tmp_path / "file.part", timeout=0.1)


def test_cache_that_cannot_be_written(toy: Entry, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataUnavailableError, match="could not be kept"):
        load("toy")


def test_failure_while_writing_leaves_no_half_file(toy: Entry, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("sodgp.data.local.os.replace", fail)
    with pytest.raises(DataUnavailableError, match="disk full"):
        load("toy")
    assert listing(cache) == ["toy.zip.part"]


def test_year_keeps_the_archive(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ",".join(["1999", *map(str, range(90))])
    server.body = archive({"YearPredictionMSD.txt": f"{line}\n{line}\n".encode()})
    entry = dataclasses.replace(CATALOGUE["year"], rows=2, source=Source(server.url, convert.year))
    monkeypatch.setitem(CATALOGUE, "year", entry)
    for _ in range(2):
        data = load("year")
        assert data.y.tolist() == [1999.0, 1999.0]
        assert data.X[0].tolist() == list(range(90))
    assert server.ranges == [None]
    assert listing(cache) == ["yearpredictionmsd.zip"]


def test_year_cut_short_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.body = archive({"YearPredictionMSD.txt": ",".join(["1999"] * 91).encode()})
    source = Source(server.url, convert.year)
    monkeypatch.setitem(CATALOGUE, "year", dataclasses.replace(CATALOGUE["year"], source=source))
    with pytest.raises(DataUnavailableError, match="has 1 rows"):
        load("year")
    assert listing(cache) == []


def offer_real(name: str, server: Server, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes]) -> None:
    server.body = archive(members)
    entry = CATALOGUE[name]
    assert entry.source is not None
    source = dataclasses.replace(entry.source, url=server.url)
    monkeypatch.setitem(CATALOGUE, name, dataclasses.replace(entry, source=source))


def real_table(name: str, shared: Path) -> np.ndarray:
    data = load(name, data_dir=shared)
    return np.column_stack([data.X, data.y])


def test_wine_in_the_original_form(shared: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    table = real_table("winered", shared)
    text = canonical_csv(CATALOGUE["winered"].columns, table).replace(b",", b";")
    offer_real("winered", server, monkeypatch, {"winequality-white.csv": b"", "winequality-red.csv": text})
    np.testing.assert_array_equal(load("winered").y, table[:, -1])


def test_protein_in_the_original_form(shared: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    table = real_table("protein", shared)
    header = ['"RMSD"', *(f'"F{i}"' for i in range(1, 10))]
    offer_real("protein", server, monkeypatch, {"CASP.csv": canonical_csv(header, np.roll(table, 1, axis=1))})
    np.testing.assert_array_equal(load("protein").y, table[:, -1])


def test_naval_in_the_original_form(shared: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    table = real_table("naval", shared)
    text = io.StringIO()
    np.savetxt(text, np.column_stack([table, np.ones(len(table))]), fmt="%.7e", delimiter="   ")
    offer_real("naval", server, monkeypatch, {"UCI CBM Dataset/data.txt": text.getvalue().encode()})
    np.testing.assert_array_equal(load("naval").y, table[:, -1])


@pytest.mark.parametrize(("name", "engine"), [("concrete", "xlrd"), ("energy", "openpyxl")])
def test_missing_excel_reader_is_named_before_any_download(
    name: str, engine: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_real(name, server, monkeypatch, {})
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(InputError, match=re.escape(f"`pip install {engine}`")):
        load(name)
    assert server.ranges == []


@pytest.mark.parametrize(
    ("name", "engine", "member"),
    [("concrete", "xlrd", "Concrete_Data.xls"), ("energy", "openpyxl", "ENB2012_data.xlsx")],
)
def test_sheets_in_the_original_form(
    name: str, engine: str, member: str, shared: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    table = real_table(name, shared)
    sheet = np.full((len(table) + 3, table.shape[1] + 3), np.nan)  # blank rows and columns, as in UCI's sheet
    sheet[: len(table), : table.shape[1]] = table
    if name == "energy":
        sheet[: len(table), table.shape[1]] = 1.0  # cooling load

    def read_excel(workbook: io.BytesIO, engine: str) -> object:
        assert workbook.read() == b"sheet"
        return pd.DataFrame(sheet)

    monkeypatch.setattr(pd, "read_excel", read_excel)
    for module in ("sodgp.data.convert.require", "sodgp.data.download.require"):
        monkeypatch.setattr(module, lambda packages, purpose: None)
    offer_real(name, server, monkeypatch, {member: b"sheet"})
    np.testing.assert_array_equal(load(name).y, table[:, -1])


def test_damaged_sheet(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")

    def read_excel(workbook: io.BytesIO, engine: str) -> object:
        raise KeyError("no worksheet")

    monkeypatch.setattr(pd, "read_excel", read_excel)
    for module in ("sodgp.data.convert.require", "sodgp.data.download.require"):
        monkeypatch.setattr(module, lambda packages, purpose: None)
    offer_real("energy", server, monkeypatch, {"ENB2012_data.xlsx": b"sheet"})
    with pytest.raises(DataUnavailableError, match="could not be read as an Excel sheet"):
        load("energy")
    assert listing(cache) == []
