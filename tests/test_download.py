import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import py7zr
import pytest
from local_server import Answering, LocalServer, running

from gedbd.corpora.file_download import download, fetch_file, fetch_tables
from gedbd.io.checksums import CHECKSUMS
from gedbd.io.http import CHUNK_BYTES
from gedbd.questions.stackexchange.dump import check_archive

pytestmark = pytest.mark.integration

TABLE = ("id,text\n" + "".join(f"{number},line {number}\n" for number in range(20_000))).encode()
LABELS = b"Issue_id,Duplicate\n1,2\n2,1\n"


class Handler(Answering):
    server: "FileServer"

    def get(self) -> None:
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
        self.answer(206 if start else 200, content[start:], {"ETag": etag, **place}, self.server.cut_after)
        self.server.cut_after = None


class FileServer(LocalServer):
    """Serves ``files`` from memory, with ranges unless ``ignores_ranges``; closes after ``cut_after`` bytes, once."""

    handler = Handler

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.cut_after: int | None = None
        self.ignores_ranges = False
        self.asked: list[tuple[str, str | None]] = []

    def put(self, path: str, content: bytes, etag: str = '"1"') -> None:
        self.files[path], self.etags[path] = content, etag


@pytest.fixture
def server() -> Iterator[FileServer]:
    with running(FileServer()) as server:
        yield server


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner_name.csv", content)
    return packed.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != CHECKSUMS)


def test_plain_and_packed_files_arrive_whole_and_alone(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    server.put("/bugs.zip", zipped(TABLE))
    for file in ("bugs.csv", "bugs.zip"):
        folder = tmp_path / file
        assert fetch_tables(server.url, folder, {file: 20_000}) == [f"fetched: {folder}/bugs.csv, 20,000 rows"]
        assert (folder / "bugs.csv").read_bytes() == TABLE
        assert names(folder) == ["bugs.csv"]


@pytest.mark.parametrize("again", ["the same file", "another file", "no ranges"])
def test_a_cut_connection_is_resumed_if_the_file_is_the_same(server, tmp_path, again):
    server.put("/bugs.csv", b"old" + TABLE if again == "another file" else TABLE, etag='"old"')
    server.cut_after = 2 * CHUNK_BYTES
    with pytest.raises(ValueError, match="run the same command to continue"):
        fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert names(tmp_path) == ["bugs.csv.part", "bugs.csv.part.etag"]
    assert (tmp_path / "bugs.csv.part").stat().st_size == 2 * CHUNK_BYTES
    if again == "another file":
        server.put("/bugs.csv", TABLE, etag='"new"')
    server.ignores_ranges = again == "no ranges"
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert server.asked == [("/bugs.csv", None), ("/bugs.csv", "bytes=131072-")]
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE
    assert names(tmp_path) == ["bugs.csv"]


def test_a_part_that_is_already_whole_is_not_fetched_again_and_a_longer_one_is_thrown_away(server, tmp_path):
    server.put("/bugs.csv", TABLE)
    part = tmp_path / "bugs.csv.part"
    download(f"{server.url}/bugs.csv", part)
    download(f"{server.url}/bugs.csv", part)
    assert part.read_bytes() == TABLE
    assert server.asked[-1] == ("/bugs.csv", f"bytes={len(TABLE)}-")
    part.write_bytes(TABLE + TABLE)
    fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})
    assert (tmp_path / "bugs.csv").read_bytes() == TABLE


@pytest.mark.parametrize(
    ("rows", "message", "left"),
    [
        (
            {"bugs.zip": 20_000, "train.csv": 3},
            "train.csv: 2 rows instead of the expected 3; no file was kept",
            ["bugs"],
        ),
        ({"bad.zip": 20_000}, "the archive is damaged", []),
        ({"none.csv": 20_000}, "/none.csv: the server returned 404 Not Found", []),
    ],
)
def test_what_is_wrong_is_not_kept(server, tmp_path, rows, message, left):
    server.put("/bugs.zip", zipped(TABLE))
    server.put("/train.csv", LABELS)
    server.put("/bad.zip", b"no archive")
    with pytest.raises(ValueError, match=message) as raised:
        fetch_tables(server.url, tmp_path, rows)
    assert server.url in str(raised.value)
    assert names(tmp_path) == [f"{name}.zip.part{ending}" for name in left for ending in ("", ".etag")]


def test_no_server_at_all_names_the_address(server, tmp_path):
    server.shutdown()
    server.server_close()
    message = rf"{server.url}/bugs.csv: the connection failed \(ConnectionError\); .*meanwhile, dataset=demo needs no"
    with pytest.raises(ValueError, match=message):
        fetch_tables(server.url, tmp_path, {"bugs.csv": 20_000})


def test_the_command_fetches_what_is_missing_and_says_what_is_there(server, tmp_path, run_command):
    server.put("/EclipsePlatform/eclipse_platform.zip", zipped(TABLE))
    server.put("/EclipsePlatform/train.csv", LABELS)
    server.put("/EclipsePlatform/test.csv", LABELS)
    counts = ["dataset.rows.reports=20000", "dataset.rows.train=2", "dataset.rows.test=2"]
    words = ["download", "dataset=eclipse", "data_dir=.", f"dataset.base_url={server.url}", *counts]
    printed = run_command(*words)
    place = tmp_path / "EclipsePlatform"
    assert names(place) == ["eclipse_platform.csv", "test.csv", "train.csv"]
    assert "fetched: EclipsePlatform/eclipse_platform.csv, 20,000 rows" in printed
    asked = len(server.asked)
    assert run_command(*words).count("already there: ") == 3
    assert len(server.asked) == asked
    # What was downloaded is compared with its checksum, and fetched again once it is deleted.
    digest = hashlib.sha256(LABELS).hexdigest()
    assert f"{digest}  train.csv" in (place / CHECKSUMS).read_text().splitlines()
    (place / "train.csv").write_bytes(LABELS.replace(b"1,2", b"1,3"))
    with pytest.raises(SystemExit, match=r"train\.csv is not as it was downloaded: its SHA-256 .*; delete it to fetch"):
        run_command(*words)
    (place / "train.csv").unlink()
    run_command(*words)
    assert (place / "train.csv").read_bytes() == LABELS


def test_a_dataset_without_an_address_is_refused(run_command):
    with pytest.raises(SystemExit, match="error: this dataset has no public address"):
        run_command("download", "dataset=demo")


def archived(*names: str) -> bytes:
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr("<x/>", name)
    return packed.getvalue()


def test_the_command_keeps_a_published_archive_as_it_is(server, tmp_path, run_command):
    content = archived("Posts.xml", "PostLinks.xml", "Tags.xml")
    server.put("/askubuntu.com.7z", content)
    words = ["download", "dataset=askubuntu", "data_dir=.", f"dataset.base_url={server.url}"]
    assert f"fetched: askubuntu/askubuntu.com.7z, {len(content):,} bytes" in run_command(*words)
    place = tmp_path / "askubuntu"
    assert names(place) == ["askubuntu.com.7z"]
    assert (place / "askubuntu.com.7z").read_bytes() == content
    assert "already there: " in run_command(*words)
    assert len(server.asked) == 1


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
