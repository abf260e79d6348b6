"""Small files that unpack to more than memory or disk can hold, from a path, a download and a tracker."""

import bz2
import gzip
import io
import lzma
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixed_server import FixedServer, running_server

from gedbd.corpora.clients.http import Client
from gedbd.corpora.file_download import fetch_tables
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.readers.jira import read_jira
from gedbd.io import unpacking
from gedbd.io.unpacking import MAX_GB_VARIABLE

COLUMNS = {"id": "id", "title": "title", "duplicate": None}
HEADER = b"id,title\n"
PIECE_BYTES = 1 << 24
ROW = b"1," + b"x" * 500 + b"\n"
ROWS_AND_BLANKS = b"\n" * 99 + b"a" * 99_999
PACKERS: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.compress, ".gz": gzip.compress}
TOO_MUCH = rf"unpacks to more than 100 times its size .* set {MAX_GB_VARIABLE} to a number of gigabytes"


def bomb(suffix: str, head: bytes, filling: bytes, tail: bytes = b"", pieces: int = 6) -> bytes:
    """A file of some 100 KB that unpacks to 100 MB: streams of one kind may follow each other."""
    piece = filling * (PIECE_BYTES // len(filling))
    if suffix == ".zip":
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("inside.csv", head + 4 * piece + tail)
        return content.getvalue()
    pack = PACKERS[suffix]
    return pack(head) + pieces * pack(piece) + pack(tail)


@pytest.fixture(params=[".xz", ".gz", ".zip"])
def table_bomb(request, tmp_path) -> Path:
    path = tmp_path / f"reports.csv{request.param}"
    path.write_bytes(bomb(request.param, HEADER, ROW))
    return path


@pytest.mark.quick_cases(1)
def test_a_table_that_unpacks_without_end_is_refused(table_bomb):
    with pytest.raises(ValueError, match=TOO_MUCH):
        read_csv(None, str(table_bomb), COLUMNS)


@pytest.mark.parametrize(
    "filling",
    [b'"', *(pytest.param(text, marks=pytest.mark.slow) for text in (ROWS_AND_BLANKS, b"a", b",", b'""""', b"\x00"))],
)
def test_whatever_it_is_filled_with(tmp_path, filling):
    path = tmp_path / "reports.csv.gz"
    path.write_bytes(bomb(".gz", HEADER, filling))
    with pytest.raises(ValueError, match=rf"reports\.csv\.gz.*({TOO_MUCH}|row \d+|zero bytes)"):
        read_csv(None, str(path), COLUMNS)


@pytest.mark.parametrize(
    "filling", [b"[", *(pytest.param(text, marks=pytest.mark.slow) for text in (b" ", b"{}", b'"', b'{"a":0},'))]
)
def test_a_page_that_unpacks_without_end_is_refused(tmp_path, filling):
    path = tmp_path / "issues.json.gz"
    path.write_bytes(bomb(".gz", b"[", filling, b"]"))
    with pytest.raises(ValueError, match=TOO_MUCH):
        read_github(None, str(path))


def test_an_xml_page_that_unpacks_without_end_is_refused(tmp_path):
    path = tmp_path / "issues.xml.xz"
    path.write_bytes(bomb(".xz", b"<rss><channel>", b"<a/>", b"</channel></rss>"))
    with pytest.raises(ValueError, match=TOO_MUCH):
        read_jira(None, str(path))


def test_many_pages_count_together(tmp_path):
    page = gzip.compress(b" " * (1 << 24) + b'[{"number": 1, "title": "a"}]')
    for number in range(12):
        (tmp_path / f"{number}.json.gz").write_bytes(page)
    with pytest.raises(ValueError, match=TOO_MUCH):
        read_github(None, str(tmp_path))


@pytest.mark.slow
def test_the_memory_that_a_bomb_takes_is_bounded(tmp_path):
    path = tmp_path / "reports.csv.xz"
    path.write_bytes(bomb(".xz", HEADER, b"1,x\n", pieces=100))
    code = (
        "import resource, sys\n"
        "from gedbd.corpora.readers.csv_export import read_csv\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        f"    read_csv(None, {str(path)!r}, {COLUMNS!r})\n"
        "except ValueError as error:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert int(told.stdout) < 1_000_000  # KB


def test_a_person_may_set_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_BYTES", 100_000)
    path = tmp_path / "reports.csv.gz"
    path.write_bytes(gzip.compress(HEADER + b"".join(b"%d,%s\n" % (number, b"x" * 5_000) for number in range(900))))
    with pytest.raises(ValueError, match=TOO_MUCH):
        read_csv(None, str(path), COLUMNS)
    monkeypatch.setenv(MAX_GB_VARIABLE, "0.003")
    with pytest.raises(
        ValueError, match=rf"unpacks to more than 0\.003 GB; .* set {MAX_GB_VARIABLE} to a number of gigabytes"
    ):
        read_csv(None, str(path), COLUMNS)
    monkeypatch.setenv(MAX_GB_VARIABLE, "1")
    assert len(read_csv(None, str(path), COLUMNS)) == 900


@pytest.mark.parametrize("value", ["", "much", "nan", "inf", "0", "-1"])
def test_a_limit_that_is_no_number_is_refused(tmp_path, monkeypatch, value):
    path = tmp_path / "reports.csv.gz"
    path.write_bytes(gzip.compress(HEADER + ROW))
    monkeypatch.setenv(MAX_GB_VARIABLE, value)
    with pytest.raises(ValueError, match=rf"{MAX_GB_VARIABLE}={value} must be a number of gigabytes above 0"):
        read_csv(None, str(path), COLUMNS)


@pytest.mark.parametrize("suffix", [".bz2", ".zst", ".7z", ".tar", ".tgz", ".br", ".Z"])
def test_a_packing_that_is_not_read_is_named(tmp_path, suffix):
    path = tmp_path / f"reports.csv{suffix}"
    path.write_bytes(bz2.compress(HEADER + ROW))
    with pytest.raises(ValueError, match=rf"\{suffix} files are not supported: pack it as \.gz, \.xz or \.zip"):
        read_csv(None, str(path), COLUMNS)


def test_a_locked_or_odd_archive_is_refused_in_a_line(tmp_path):
    path = tmp_path / "reports.zip"
    path.write_bytes(bomb(".zip", HEADER, ROW))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1  # encrypted
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"reports.zip: the archive cannot be unpacked .*password"):
        read_csv(None, str(path), COLUMNS)


@pytest.fixture
def server() -> Iterator[FixedServer]:
    with running_server() as running:
        yield running


def address(server: FixedServer) -> str:
    return f"http://{server.host}"


@pytest.mark.parametrize("suffix", [".gz", *(pytest.param(name, marks=pytest.mark.slow) for name in (".xz", ".zip"))])
def test_a_download_that_unpacks_without_end_leaves_nothing(server, tmp_path, suffix):
    server.body = bomb(suffix, HEADER, ROW)
    with pytest.raises(ValueError, match=TOO_MUCH):
        fetch_tables(address(server), tmp_path, {f"bugs.csv{suffix}": 2})
    assert list(tmp_path.iterdir()) == []


def test_a_download_without_end_is_broken_off(server, tmp_path, monkeypatch):
    server.body, server.endless = b"x" * (1 << 20), True
    monkeypatch.setenv(MAX_GB_VARIABLE, "0.02")
    with pytest.raises(
        ValueError, match=rf"/bugs.csv: more than 0.02 GB; .*set {MAX_GB_VARIABLE} to a number of gigabytes"
    ):
        fetch_tables(address(server), tmp_path, {"bugs.csv": 2})
    assert list(tmp_path.iterdir()) == []


def test_a_download_announced_as_larger_is_not_begun(server, tmp_path, monkeypatch):
    server.body = b"x" * (1 << 20)
    monkeypatch.setenv(MAX_GB_VARIABLE, "0.001")
    with pytest.raises(ValueError, match=r"/bugs.csv: more than 0.001 GB"):
        fetch_tables(address(server), tmp_path, {"bugs.csv": 2})
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_would_be_full_stops_the_download(server, tmp_path, monkeypatch):
    server.body = HEADER + ROW
    monkeypatch.setattr(unpacking, "RESERVE_BYTES", 1 << 60)
    with pytest.raises(ValueError, match=r"bytes are free, .* are needed; free some space"):
        fetch_tables(address(server), tmp_path, {"bugs.csv": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_while_unpacking_leaves_nothing(server, tmp_path):
    """The limit on a file's size makes the system refuse to write on, as a full disk does."""
    server.body = gzip.compress(b"".join(b"%d,title %d\n" % (number, number) for number in range(400_000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            fetch_tables(address(server), tmp_path, {"bugs.csv.gz": 400_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
def test_a_tracker_s_packed_answer_is_bounded(server, coding):
    server.headers = {"Content-Encoding": coding}
    server.body = gzip.compress(b" " * 80_000_000, compresslevel=1)
    if coding == "gzip, gzip":
        server.body = gzip.compress(server.body)
    client = Client(address(server), {}, "SOME_TOKEN", 0, print, sleep=lambda seconds: None)
    with pytest.raises(ValueError, match=r"127.0.0.1:\d+/page.*(more than 64 MB in one page|the connection failed)"):
        client.get("/page")
