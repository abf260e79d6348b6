import io
import re
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import py7zr
import pytest
from hydra import compose, initialize_config_dir

from gedbd.commands.download import main
from gedbd.configuration.command import CONF_DIR
from gedbd.corpora.file_download import CHUNK_BYTES, download, fetch_file, fetch_tables
from gedbd.corpora.readers.stackexchange.dump import check_archive

TABLE = ("id,text\n" + "".join(f"{number},line {number}\n" for number in range(20_000))).encode()
LABELS = b"Issue_id,Duplicate\n1,2\n2,1\n"


class FileServer(ThreadingHTTPServer):
    """Serves ``files`` from memory, with ranges unless ``ignores_ranges``; closes after ``cut_after`` bytes, once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.cut_after: int | None = None
        self.ignores_ranges = False
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, content: bytes, etag: str = '"1"') -> None:
        self.files[path], self.etags[path] = content, etag


class Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append((self.path, wanted))
        if self.path not in self.server.files:
            return self.send_error(404)
        content, etag = self.server.files[self.path], self.server.etags[self.path]
        unchanged = self.headers["If-Range"] in {None, etag}
        start = int(wanted[6:-1]) if wanted and unchanged and not self.server.ignores_ranges else 0
        if start >= len(content):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        place = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self.answer(206 if start else 200, content[start:], {"ETag": etag, **place})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: self.server.cut_after])
        self.server.cut_after = None

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner_name.csv", content)
    return packed.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cut(server: FileServer, folder: Path, file: str, after: int) -> None:
    """Have a first attempt cut off."""
    server.cut_after = after
    with pytest.raises(ValueError, match="run the same command to continue"):
        fetch_tables(server.url, folder, {file: 20_000})
    assert names(folder) == [f"{file}.part", f"{file}.part.etag"]
    assert (folder / f"{file}.part").stat().st_size == after


def test_a_plain_file_arrives_whole_and_alone(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    lines = fetch_tables(server.url, tmp_path / "new", {"bugs.csv": 20_000})
    assert (tmp_path / "new" / "bugs.csv").read_bytes() == TABLE
    assert names(tmp_path / "new") == ["bugs.csv"]
    assert lines == [f"fetched: {tmp_path}/new/bugs.csv, 20,000 rows"]


def test_a_zip_is_unpacked_under_its_own_name(server, tmp_path):
    server.put("/bugs.zip", zipped(TABLE))
    fetch_tables(server.url, tmp_path, {"bugs.zip": 20_000})
    assert names(tmp_path) == ["bugs.csv"]
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE


def test_a_cut_connection_is_resumed_where_it_broke(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    cut(server, tmp_path, "bugs.csv", after=2 * CHUNK_BYTES)
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert server.asked == [("/bugs.csv", None), ("/bugs.csv", "bytes=131072-")]
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE
    assert names(tmp_path) == ["bugs.csv"]


def test_a_file_that_changed_meanwhile_is_fetched_again(server, tmp_path):
    server.put("/bugs.csv", b"old" + TABLE, etag='"old"')
    cut(server, tmp_path, "bugs.csv", after=2 * CHUNK_BYTES)
    server.put("/bugs.csv", TABLE, etag='"new"')
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE


def test_a_server_without_ranges_sends_the_whole_file_again(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    cut(server, tmp_path, "bugs.csv", after=2 * CHUNK_BYTES)
    server.ignores_ranges = True
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE


def test_a_part_that_is_already_whole_is_not_fetched_again(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    part = tmp_path / "bugs.csv.part"
    download(f"{server.url}/bugs.csv", part)
    download(f"{server.url}/bugs.csv", part)
    assert part.read_bytes() == TABLE
    assert server.asked[-1] == ("/bugs.csv", f"bytes={len(TABLE)}-")


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    server.put("/bugs.csv", TABLE + TABLE)
    download(f"{server.url}/bugs.csv", tmp_path / "bugs.csv.part")
    server.put("/bugs.csv", TABLE)
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE


def test_a_wrong_count_leaves_nothing_in_place(server, tmp_path):
    server.put("/bugs.zip", zipped(TABLE))
    server.put("/train.csv", LABELS)
    message = "train.csv: 2 rows instead of the expected 3; no file was kept"
    with pytest.raises(ValueError, match=message):
        fetch_tables(server.url, tmp_path, {"bugs.zip": 20_000, "train.csv": 3})
    assert names(tmp_path) == ["bugs.zip.part", "bugs.zip.part.etag"]


def test_a_damaged_archive_is_not_kept(server, tmp_path):
    server.put("/bugs.zip", b"no archive")
    with pytest.raises(ValueError, match="the archive is damaged"):
        fetch_tables(server.url, tmp_path, {"bugs.zip": 20_000})
    assert names(tmp_path) == []


def test_an_http_error_names_the_address(server, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"{server.url}/bugs.csv: the server returned 404 Not Found")):
        fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert names(tmp_path) == []


def test_no_server_at_all_names_the_address(server, tmp_path):
    address = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(ValueError, match=re.escape(f"{address}/bugs.csv: the connection failed")):
        fetch_tables(address, tmp_path, {"bugs.csv": 20_000})


def test_the_command_fetches_what_is_missing_and_says_what_is_there(server, tmp_path, capsys):
    server.put("/EclipsePlatform/eclipse_platform.zip", zipped(TABLE))
    server.put("/EclipsePlatform/train.csv", LABELS)
    server.put("/EclipsePlatform/test.csv", LABELS)
    counts = ["dataset.rows.reports=20000", "dataset.rows.train=2", "dataset.rows.test=2"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        overrides = ["dataset=eclipse", f"data_dir={tmp_path}", f"dataset.base_url={server.url}", *counts]
        cfg = compose("download", overrides)
    main(cfg)
    place = tmp_path / "EclipsePlatform"
    assert names(place) == ["eclipse_platform.csv", "test.csv", "train.csv"]
    assert f"fetched: {place}/eclipse_platform.csv, 20,000 rows" in capsys.readouterr().out
    asked = len(server.asked)
    main(cfg)
    assert len(server.asked) == asked
    assert capsys.readouterr().out.count("already there: ") == 3


def test_a_dataset_without_an_address_is_refused():
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("download", ["dataset=demo"])
    with pytest.raises(SystemExit, match="error: this dataset has no public address"):
        main(cfg)


def archived(*names: str) -> bytes:
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr("<x/>", name)
    return packed.getvalue()


def test_the_command_keeps_a_published_archive_as_it_is(server, tmp_path, capsys):
    content = archived("Posts.xml", "PostLinks.xml", "Tags.xml")
    server.put("/askubuntu.com.7z", content)
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        overrides = ["dataset=askubuntu", f"data_dir={tmp_path}", f"dataset.base_url={server.url}"]
        cfg = compose("download", overrides)
    main(cfg)
    place = tmp_path / "askubuntu"
    assert names(place) == ["askubuntu.com.7z"]
    assert (place / "askubuntu.com.7z").read_bytes() == content
    assert f"fetched: {place}/askubuntu.com.7z, {len(content):,} bytes" in capsys.readouterr().out
    main(cfg)
    assert len(server.asked) == 1
    assert "already there: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", r"the archive is damaged \(Bad7zFile\); fetch it again"),
        (archived("Posts.xml", "Badges.xml"), r"the archive holds no postlinks\.xml, only badges\.xml, posts\.xml"),
    ],
)
def test_another_file_than_an_archive_of_a_site_is_not_kept(server, tmp_path, content, message):
    server.put("/askubuntu.com.7z", content)
    with pytest.raises(ValueError, match=message):
        fetch_file(f"{server.url}/askubuntu.com.7z", tmp_path / "a.7z", check_archive)
    assert names(tmp_path) == []


def test_an_interrupted_archive_is_resumed(server, tmp_path):
    server.put("/a.7z", TABLE)
    server.cut_after = 2 * CHUNK_BYTES
    with pytest.raises(ValueError, match="run the same command to continue"):
        fetch_file(f"{server.url}/a.7z", tmp_path / "a.7z", Path.stat)
    fetch_file(f"{server.url}/a.7z", tmp_path / "a.7z", Path.stat)
    assert server.asked == [("/a.7z", None), ("/a.7z", "bytes=131072-")]
    assert (tmp_path / "a.7z").read_bytes() == TABLE
