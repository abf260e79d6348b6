"""Fetch published tables: resume what was cut off, count the rows, and only then put them in place."""

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
RESERVE_BYTES = 100_000_000  # stay free on the disk
LENGTH = re.compile(r"[0-9]{1,18}")
TIMEOUT_S = (10, 60)  # to connect, and between two chunks


def fetch_tables(base_url: str, place: Path, rows: Mapping[str, int]) -> list[str]:
    """Fetch each file that is not there yet, unpacked as ``.csv``; all are put in place, or none is.

    Args:
        base_url: Public address of the files.
        place: Folder to put them in; ``<file>.part`` stays there while a file is incomplete.
        rows: File to the number of records it must hold.

    Returns:
        One line for each file.

    Raises:
        ValueError: A file cannot be fetched, or holds another number of rows. The message names the address, without
            what is secret in it.
    """
    place.mkdir(parents=True, exist_ok=True)
    there = {file: found for file in rows if (found := find_table(place, Path(file).stem))}
    wanted = {file: place / f"{file}.part" for file in rows if file not in there}
    with tempfile.TemporaryDirectory(dir=place) as staging:
        for file, part in wanted.items():
            with naming(f"{base_url}/{file}"):
                download(f"{base_url}/{file}", part)
                unpack(part, file, rows[file], Path(staging))
        for file, part in wanted.items():
            os.replace(Path(staging) / target_name(file), place / target_name(file))
            discard(part)
    lines = [f"already there: {found}" for found in there.values()]
    return lines + [f"fetched: {place / target_name(file)}, {rows[file]:,} rows" for file in wanted]


def target_name(file: str) -> str:
    """Name of the unpacked file."""
    return f"{Path(file).stem}.csv"


def unpack(part: Path, file: str, num_rows: int, staging: Path) -> None:
    """Unpack a complete download into ``staging`` and count its rows; what does not fit is fetched anew next time.

    Raises:
        ValueError: The file is damaged, unpacks to too much for the limit or the disk, or does not hold ``num_rows``
            records. Nothing of it is left, and nothing after an ``OSError``.
    """
    try:
        target = staging / target_name(file)
        with open_packed(part, Path(file).suffix) as stream, target.open("wb") as out:
            check_space(staging, part.stat().st_size)  # it unpacks to no less
            while chunk := stream.read(UNPACK_BYTES):
                check_space(staging, len(chunk))
                out.write(chunk)
        found = len(read_table(target)[0])
        if found != num_rows:
            raise ValueError(
                f"{file}: {found:,} rows where {num_rows:,} are expected; nothing was put in place. If the published "
                "file has changed, fetch it by hand or set the new number under dataset.rows"
            )
    except (ValueError, OSError):
        discard(part)
        raise


def check_space(folder: Path, needed: int) -> None:
    """Raises ValueError if so many bytes would fill the disk, or leave less than a reserve on it."""
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE_BYTES:
        raise ValueError(
            f"{folder}: {free:,} bytes are free where {needed + RESERVE_BYTES:,} are needed; free some space, or set "
            "data_dir= to a larger disk"
        )


def download(url: str, part: Path) -> None:
    """Fetch ``url`` into ``part``, going on where an earlier attempt was cut off if the file is still the same.

    Raises:
        ValueError: The server refuses, or the connection fails, and what has come stays in ``part``; or it sends more
            than the limit or the disk allows, and nothing stays.
    """
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
            f"{shown_url(url)}: the connection failed ({type(error).__name__}); the same command goes on from what has"
            " come"
        ) from error
    if not fits:
        discard(part)
        download(url, part)


def resumes(response: requests.Response, have: int, validator: str) -> bool:
    """Whether the answer can be used: the whole file, or the rest of the very file that was begun.

    Raises:
        ValueError: The server refuses.
    """
    if have and response.status_code == requests.codes.requested_range_not_satisfiable:
        return response.headers.get("Content-Range") == f"bytes */{have}"
    if not response.ok:
        raise ValueError(f"{shown_url(response.url)}: the server answers {response.status_code} {response.reason}")
    if not have or response.status_code != requests.codes.partial_content:
        return True
    starts = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return starts and validator_of(response) in {validator, ""}


def receive(response: requests.Response, part: Path, have: int) -> None:
    """Write the answer's bytes, behind the ``have`` first ones where it is the rest of the file.

    Raises:
        ValueError: The connection closed before the announced length; or there is more than the limit or the disk
            allows, and nothing stays.
    """
    if response.status_code == requests.codes.requested_range_not_satisfiable:
        return  # all bytes had come before
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
        raise ValueError(f"{url}: {size:,} of {total:,} bytes came; the same command goes on from there")


def write_chunks(response: requests.Response, part: Path, start: int, total: int | None) -> int:
    """Write the answer's bytes behind the first ``start`` ones, and give the file's size.

    Raises:
        ValueError: There are more than the limit or the disk allows.
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
    """Raises ValueError if a file is larger than any of a corpus, see ``gedbd.io.unpacking``."""
    max_bytes = asked_bytes() or MAX_BYTES
    if size > max_bytes:
        raise ValueError(f"{shown_url(response.url)}: more than {max_bytes / GIGABYTE:g} GB come; {CURE}")


def progress_bar() -> Progress:
    """Bytes, rate and time left."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns)


def validator_of(response: requests.Response) -> str:
    """What tells this version of the file from another, empty where the server does not say."""
    return response.headers.get("ETag") or response.headers.get("Last-Modified") or ""


def validator_file(part: Path) -> Path:
    """Where the validator of ``part`` is kept."""
    return part.with_name(f"{part.name}.etag")


def discard(part: Path) -> None:
    """Remove a download and its validator."""
    part.unlink(missing_ok=True)
    validator_file(part).unlink(missing_ok=True)
