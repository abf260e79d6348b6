"""Download of published tables, with resuming and a check of the number of rows."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import requests
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from gedbd.corpora.readers.bughub import find_table
from gedbd.corpora.readers.csv_file import open_packed, read_table
from gedbd.corpora.urls import naming, shown_url
from gedbd.io.unpacking import CURE, GIGABYTE, MAX_BYTES, asked_bytes

CHUNK_BYTES = 1 << 16
UNPACK_BYTES = 1 << 22
RESERVE_BYTES = 100_000_000  # left free on the disk
LENGTH = re.compile(r"[0-9]{1,18}")
TIMEOUT_S = (10, 60)  # to connect, and between two chunks


def fetch_tables(base_url: str, place: Path, rows: Mapping[str, int]) -> list[str]:
    """Fetch the files that are missing and unpack them as ``.csv``; either all are put in place or none.

    Args:
        base_url: Public address of the files.
        place: Folder to put them in; ``<file>.part`` stays there while a file is incomplete.
        rows: File to its number of records.

    Returns:
        One line for each file.

    Raises:
        ValueError: A file cannot be fetched, or has another number of rows. The message gives the address without its
            secrets.
    """
    place.mkdir(parents=True, exist_ok=True)
    found = {file: find_table(place, Path(file).stem) for file in rows}
    wanted = {file: place / f"{file}.part" for file in rows if found[file] is None}
    # Files are unpacked on the same file system, so that the final step only renames.
    with tempfile.TemporaryDirectory(dir=place) as staging:
        for file, part in wanted.items():
            with naming(f"{base_url}/{file}"):
                download(f"{base_url}/{file}", part)
                unpack(part, file, rows[file], Path(staging))
        for file, part in wanted.items():
            os.replace(Path(staging) / target_name(file), place / target_name(file))
            discard(part)
    lines = [f"already there: {path}" for path in found.values() if path is not None]
    return lines + [f"fetched: {place / target_name(file)}, {rows[file]:,} rows" for file in wanted]


def target_name(file: str) -> str:
    """Name of the unpacked file."""
    return f"{Path(file).stem}.csv"


def unpack(part: Path, file: str, num_rows: int, staging: Path) -> None:
    """Unpack a complete download into ``staging`` and count its rows; a wrong download is deleted.

    Raises:
        ValueError: The file is damaged, exceeds the limit or the disk when unpacked, or does not have ``num_rows``
            records.
    """
    try:
        target = staging / target_name(file)
        with open_packed(part, Path(file).suffix) as stream, target.open("wb") as out:
            check_space(staging, part.stat().st_size)  # the unpacked file is at least as large
            while chunk := stream.read(UNPACK_BYTES):
                check_space(staging, len(chunk))
                out.write(chunk)
        found = len(read_table(target)[0])
        if found != num_rows:
            raise ValueError(
                f"{file}: {found:,} rows instead of {num_rows:,}; nothing was put in place. If the published file has "
                "changed, fetch it by hand or set the new number under dataset.rows"
            )
    except (ValueError, OSError):
        discard(part)
        raise


def check_space(folder: Path, needed: int) -> None:
    """Raises ValueError if the disk has less free space than ``needed`` bytes and a reserve."""
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE_BYTES:
        raise ValueError(
            f"{folder}: {free:,} bytes are free where {needed + RESERVE_BYTES:,} are needed; free some space, or set "
            "data_dir= to a larger disk"
        )


def download(url: str, part: Path) -> None:
    """Fetch ``url`` into ``part``, and continue an interrupted download if the file has not changed.

    Raises:
        ValueError: The server refuses or the connection fails, which keeps ``part``; or the file exceeds the limit or
            the disk, which deletes it.
    """
    # Without a validator there is no telling whether the rest belongs to the same file, so all of it is fetched.
    validator = validator_file(part).read_text() if validator_file(part).exists() and part.exists() else ""
    have = part.stat().st_size if validator else 0
    headers = {"Accept-Encoding": "identity"}  # so that lengths and ranges count the file's own bytes
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_S) as response:
            fits = resumes(response, have, validator)
            if fits:
                receive(response, part, have)
    except requests.RequestException as error:
        raise ValueError(
            f"{shown_url(url)}: the connection failed ({type(error).__name__}); run the same command again to continue"
        ) from error
    if not fits:
        discard(part)
        download(url, part)


def resumes(response: requests.Response, have: int, validator: str) -> bool:
    """Whether the answer can be used: the whole file, or the rest of the same file.

    Raises:
        ValueError: The server refuses.
    """
    if have and response.status_code == requests.codes.requested_range_not_satisfiable:
        # There is no rest, which is right if the part is already complete.
        return response.headers.get("Content-Range") == f"bytes */{have}"
    if not response.ok:
        raise ValueError(f"{shown_url(response.url)}: the server answers {response.status_code} {response.reason}")
    if not have or response.status_code != requests.codes.partial_content:
        return True
    starts = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return starts and validator_of(response) in {validator, ""}


def receive(response: requests.Response, part: Path, have: int) -> None:
    """Write the bytes of the answer, after the first ``have`` ones if it is the rest of the file.

    Raises:
        ValueError: The connection closed before the announced length; or the file exceeds the limit or the disk, which
            deletes it.
    """
    if response.status_code == requests.codes.requested_range_not_satisfiable:
        return  # the part was complete
    start = have if response.status_code == requests.codes.partial_content else 0
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if LENGTH.fullmatch(length) else None
    url = shown_url(response.url)
    try:
        size = write_chunks(response, part, start, total)
    except requests.RequestException:
        raise
    except (ValueError, OSError):
        discard(part)
        raise
    if total is not None and size != total:
        raise ValueError(f"{url}: {size:,} of {total:,} bytes were received; run the same command again to continue")


def write_chunks(response: requests.Response, part: Path, start: int, total: int | None) -> int:
    """Write the bytes of the answer after the first ``start`` ones, and return the size of the file.

    Raises:
        ValueError: The file exceeds the limit or the disk.
    """
    check_size(response, total or 0)
    check_space(part.parent, (total or start) - start)
    size = start
    with part.open("ab" if start else "wb") as out, progress_bar() as progress:
        validator_file(part).write_text(validator_of(response))
        task = progress.add_task(part.stem, total=total, completed=start)
        for chunk in response.iter_content(CHUNK_BYTES):
            size += len(chunk)
            check_size(response, size)
            check_space(part.parent, len(chunk))
            out.write(chunk)
            progress.advance(task, len(chunk))
    return size


def check_size(response: requests.Response, size: int) -> None:
    """Raises ValueError if a file exceeds the limit, see ``gedbd.io.unpacking``."""
    max_bytes = asked_bytes() or MAX_BYTES
    if size > max_bytes:
        raise ValueError(f"{shown_url(response.url)}: more than {max_bytes / GIGABYTE:g} GB were sent; {CURE}")


def progress_bar() -> Progress:
    """Bytes, rate and time left."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns)


def validator_of(response: requests.Response) -> str:
    """What identifies this version of the file; empty if the server gives neither an ETag nor a date."""
    return response.headers.get("ETag") or response.headers.get("Last-Modified") or ""


def validator_file(part: Path) -> Path:
    """The file with the validator of ``part``."""
    return part.with_name(f"{part.name}.etag")


def discard(part: Path) -> None:
    """Remove a download and its validator."""
    part.unlink(missing_ok=True)
    validator_file(part).unlink(missing_ok=True)
