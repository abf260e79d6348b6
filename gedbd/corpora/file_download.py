"""Download published files: resume interrupted downloads, check what they hold, and only then keep them."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import requests

from gedbd.corpora.readers.bughub import find_table
from gedbd.corpora.readers.csv_file import open_packed, read_table
from gedbd.io.checksums import CHECKSUMS, checksum, note_checksums, noted_checksums
from gedbd.io.console import item_progress
from gedbd.io.http import CHUNK_BYTES, HttpSession, naming, shown_url
from gedbd.io.unpacking import CURE, GIGABYTE, MAX_BYTES, asked_bytes, check_space

UNPACK_BYTES = 1 << 22
LENGTH = re.compile(r"[0-9]{1,18}")


def fetch_tables(base_url: str, folder: Path, rows: Mapping[str, int]) -> list[str]:
    """Downloads the missing files and unpacks them as ``.csv``; keeps all or none.

    Args:
        base_url: Public address of the files.
        folder: Target folder; ``<file>.part`` stays there while a file is incomplete.
        rows: Name of each file, and the number of records that it must hold.

    Returns:
        One line per file.

    Raises:
        ValueError: A download fails, or a file has an unexpected number of rows or has changed since its download. The
            message names the address without its secrets.
    """
    folder.mkdir(0o700, parents=True, exist_ok=True)
    tables = {file: find_table(folder, Path(file).stem) for file in rows}
    present = {file: table for file, table in tables.items() if table}
    for table in present.values():
        check_unchanged(table)
    missing = {file: folder / f"{file}.part" for file in rows if file not in present}
    # The staging folder is on the same disk, so that moving a file out of it is atomic.
    with tempfile.TemporaryDirectory(dir=folder) as staging:
        for file, part in missing.items():
            with naming(f"{base_url}/{file}"):
                download(f"{base_url}/{file}", part)
                unpack(part, file, rows[file], Path(staging))
        for file, part in missing.items():
            os.replace(Path(staging) / target_name(file), folder / target_name(file))
            note_checksums(folder / target_name(file), [checksum(folder / target_name(file))])
            discard(part)
    lines = [f"already there: {table}" for table in present.values()]
    return lines + [f"fetched: {folder / target_name(file)}, {rows[file]:,} rows" for file in missing]


def fetch_file(url: str, target: Path, check: Callable[[Path], object]) -> str:
    """Downloads a file and keeps it as it is; an existing file is only checked.

    Args:
        url: Its public address.
        target: Its path; ``<target>.part`` stays beside it while the download is incomplete.
        check: Raises ValueError if a complete download is invalid.

    Returns:
        One line that says what was done.

    Raises:
        ValueError: The download fails, or ``check`` refuses it; the refused file is deleted.
    """
    if target.exists():
        check_unchanged(target)
        return f"already there: {target}"
    target.parent.mkdir(0o700, parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with naming(url):
        download(url, part)
        try:
            check(part)
        except ValueError:
            discard(part)
            raise
    os.replace(part, target)
    note_checksums(target, [checksum(target)])
    discard(part)
    return f"fetched: {target}, {target.stat().st_size:,} bytes"


def check_unchanged(path: Path) -> None:
    """Raises ValueError if a file has changed since its download; files that were added by hand are not checked."""
    noted = noted_checksums(path)
    if noted and checksum(path) not in noted:
        raise ValueError(
            f"{path} is not as it was downloaded: its SHA-256 is not the one in {path.parent / CHECKSUMS}; delete it to"
            " fetch it again"
        )


def target_name(file: str) -> str:
    """Name of the unpacked file."""
    return f"{Path(file).stem}.csv"


def unpack(part: Path, file: str, num_rows: int, staging: Path) -> None:
    """Unpacks a complete download into ``staging`` and checks its number of rows.

    Raises:
        ValueError: The file is damaged, too large for the limit or the disk, or does not hold ``num_rows`` records. The
            download is deleted, also after an ``OSError``, and starts over next time.
    """
    try:
        target = staging / target_name(file)
        with open_packed(part, Path(file).suffix) as stream, target.open("wb") as out:
            check_space(staging, part.stat().st_size)  # the unpacked file is no smaller
            while chunk := stream.read(UNPACK_BYTES):
                check_space(staging, len(chunk))
                out.write(chunk)
        num_read = len(read_table(target)[0])
        if num_read != num_rows:
            raise ValueError(
                f"{file}: {num_read:,} rows instead of the expected {num_rows:,}; no file was kept. If the published"
                " file has changed, download it by hand or set the new number under dataset.rows"
            )
    except (ValueError, OSError):
        discard(part)
        raise


def download(url: str, part: Path) -> None:
    """Downloads ``url`` into ``part``; continues an interrupted download if the file is still the same.

    Raises:
        ValueError: The server refuses, or the connection fails; the bytes received so far stay in ``part``. If the file
            is too large for the limit or the disk, they are deleted.
    """
    validator = validator_file(part).read_text() if validator_file(part).exists() and part.exists() else ""
    offset = part.stat().st_size if validator else 0
    rest = {"Range": f"bytes={offset}-", "If-Range": validator} if offset else {}
    # Without an encoding, lengths and ranges count the bytes of the file itself.
    headers = {"Accept-Encoding": "identity"}
    session = HttpSession(url, "dataset.base_url", headers=headers, subdomains=True, use_netrc=True)
    try:
        with session.open("GET", url, rest) as response:
            fits = resumes(response, offset, validator)
            if fits:
                receive(response, part, offset)
    except requests.RequestException as error:
        raise ValueError(
            f"{shown_url(url)}: the connection failed ({type(error).__name__}); run the same command to continue;"
            " meanwhile, dataset=demo needs no download"
        ) from error
    if not fits:
        discard(part)
        download(url, part)


def resumes(response: requests.Response, offset: int, validator: str) -> bool:
    """Whether the response is the whole file, or the rest of the same version. Raises ValueError if refused."""
    if offset and response.status_code == requests.codes.requested_range_not_satisfiable:
        return response.headers.get("Content-Range") == f"bytes */{offset}"
    if not response.ok:
        raise ValueError(f"{shown_url(response.url)}: the server returned {response.status_code} {response.reason}")
    if not offset or response.status_code != requests.codes.partial_content:
        return True
    starts = response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
    return starts and validator_of(response) in {validator, ""}


def receive(response: requests.Response, part: Path, offset: int) -> None:
    """Writes the body of a response, after the bytes received before if it is the rest of the file.

    Raises:
        ValueError: The connection closed before the announced length, or the file is too large for the limit or the
            disk; then it is deleted.
    """
    if response.status_code == requests.codes.requested_range_not_satisfiable:
        return  # the earlier attempt received all bytes
    start = offset if response.status_code == requests.codes.partial_content else 0
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if LENGTH.fullmatch(length) else None
    size = start
    try:
        check_size(response, total or 0)
        check_space(part.parent, (total or start) - start)
        with part.open("ab" if start else "wb") as out, item_progress("MB", transient=False) as progress:
            validator_file(part).write_text(validator_of(response))
            task = progress.add_task(part.stem, total=total and total / 1e6)
            progress.update(task, completed=start / 1e6)
            for chunk in response.iter_content(CHUNK_BYTES):
                size += len(chunk)
                check_size(response, size)
                check_space(part.parent, len(chunk))
                out.write(chunk)
                progress.advance(task, len(chunk) / 1e6)
    except requests.RequestException:  # an OSError too, after which the bytes received so far stay
        raise
    except (ValueError, OSError):
        discard(part)
        raise
    if total is not None and size != total:
        url = shown_url(response.url)
        raise ValueError(f"{url}: received {size:,} of {total:,} bytes; run the same command to continue")


def check_size(response: requests.Response, size: int) -> None:
    """Raises ValueError if a file exceeds the limit of ``gedbd.io.unpacking``."""
    max_bytes = asked_bytes() or MAX_BYTES
    if size > max_bytes:
        raise ValueError(f"{shown_url(response.url)}: more than {max_bytes / GIGABYTE:g} GB; {CURE}")


def validator_of(response: requests.Response) -> str:
    """Identifies this version of the file, empty if the server sends no such header."""
    return response.headers.get("ETag") or response.headers.get("Last-Modified") or ""


def validator_file(part: Path) -> Path:
    """The file that holds the validator of ``part``."""
    return part.with_name(f"{part.name}.etag")


def discard(part: Path) -> None:
    """Deletes a download and its validator."""
    part.unlink(missing_ok=True)
    validator_file(part).unlink(missing_ok=True)
