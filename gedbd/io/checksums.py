"""Checksums of checkpoints, in a file of their folder that ``sha256sum --check`` also reads.

A checkpoint with flipped bits loads without an error: PyTorch does not compare the checksums in its archives.
"""

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

from gedbd.io.console import is_first_process, say_once
from gedbd.io.files import check_regular, write_text

CHECKSUMS = "SHA256SUMS"  # in the folder of the files it lists


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises ValueError if it is no regular file."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def noted_checksums(path: Path) -> list[str]:
    """The recorded checksums of a file: one; two after a process was killed while replacing it; none in old runs."""
    return [digest for digest, name in _lines(path.parent) if name == path.name]


def note_checksums(path: Path, digests: Sequence[str]) -> None:
    """Replaces the checksums of a file; the lines of other files stay.

    Args:
        path: The file.
        digests: The checksum; those of the old and the new content while the file is replaced; none to delete its line.
    """
    kept = [line for line in _lines(path.parent) if line[1] != path.name]
    lines = [*kept, *((digest, path.name) for digest in digests)]
    write_text(path.parent / CHECKSUMS, "".join(f"{digest}  {name}\n" for digest, name in lines))


def check_whole(checkpoint: Path) -> None:
    """Compares a checkpoint with its checksum.

    Checkpoints of old runs have no checksum. For these, the CRC-32 of each part of the archive is compared, and the
    first process prints a line about it, once per file.

    Raises:
        ValueError: If the checkpoint is truncated, was changed after it was written, or is no regular file.
        FileNotFoundError: If the checkpoint does not exist.
    """
    checkpoint.stat()
    check_regular(checkpoint)
    if not is_zipfile(checkpoint):
        raise ValueError(f"{checkpoint} is damaged: it cannot be read as a checkpoint")
    noted = noted_checksums(checkpoint)
    if noted:
        if checksum(checkpoint) not in noted:
            raise ValueError(
                f"{checkpoint} is damaged: its SHA-256 is not the one in {checkpoint.parent / CHECKSUMS}; use another"
                " checkpoint or train again (if you replaced it yourself, delete its line there)"
            )
        return
    try:
        with ZipFile(checkpoint) as archive:
            damaged = archive.testzip()
    except (BadZipFile, zlib.error, OSError, NotImplementedError, EOFError, ValueError) as error:
        damaged = str(error)
    if damaged is not None:
        raise ValueError(f"{checkpoint} is damaged: the CRC-32 of {damaged} in it is wrong; train again")
    if is_first_process():
        say_once(f"{checkpoint}: its SHA-256 was not recorded; its CRC-32 is right")


def _lines(folder: Path) -> list[tuple[str, str]]:
    """Checksum and file name of each line in a folder's ``SHA256SUMS``."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return []
    pairs = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split(maxsplit=1)
        if len(words) == 2:
            pairs.append((words[0], words[1].lstrip("*")))  # sha256sum marks binary files with *
    return pairs
