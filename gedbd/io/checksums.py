"""Checksums of checkpoints, in a file beside them that ``sha256sum --check`` reads too.

A checkpoint with flipped bits loads without an error: PyTorch does not compare the checksums in its archives.
"""

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

from gedbd.io.files import write_text
from gedbd.io.printing import is_first_process, say_once

CHECKSUMS = "SHA256SUMS"  # in the folder of the files it lists


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def noted_checksums(path: Path) -> list[str]:
    """The checksums noted for a file: one, or two if a kill came while it was replaced; none for files of old runs."""
    return [digest for digest, name in _lines(path.parent) if name == path.name]


def note_checksums(path: Path, digests: Sequence[str]) -> None:
    """Replaces what is noted for a file; other files' lines stay.

    Args:
        path: The file.
        digests: Its checksum; while it is being replaced, those of the old and the new content; none to forget it.
    """
    kept = [line for line in _lines(path.parent) if line[1] != path.name]
    lines = [*kept, *((digest, path.name) for digest in digests)]
    write_text(path.parent / CHECKSUMS, "".join(f"{digest}  {name}\n" for digest, name in lines))


def check_whole(checkpoint: Path) -> None:
    """Compares a checkpoint with its checksum.

    One without a checksum, which an older gedbd has left, is compared with the CRC-32 of each part in its archive; the
    first process prints that, once for each file.

    Raises:
        ValueError: If the checkpoint was cut off or changed since it was written.
        FileNotFoundError: If there is none.
    """
    checkpoint.stat()
    if not is_zipfile(checkpoint):
        raise ValueError(f"{checkpoint} is damaged: no checkpoint can be read from it")
    noted = noted_checksums(checkpoint)
    if noted:
        if checksum(checkpoint) not in noted:
            raise ValueError(
                f"{checkpoint} is damaged: its SHA-256 is not the one in {checkpoint.parent / CHECKSUMS}; take another"
                " checkpoint or train again (if you have replaced it yourself, delete its line there)"
            )
        return
    damaged = _damaged_part(checkpoint)
    if damaged is not None:
        raise ValueError(f"{checkpoint} is damaged: the CRC-32 of {damaged} in it is wrong; train again")
    if is_first_process():
        say_once(f"{checkpoint}: unchecked, as no SHA-256 lies beside it; its CRC-32 is right")


def _lines(folder: Path) -> list[tuple[str, str]]:
    """Checksum and file name of each line in a folder's list."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return []
    words = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [(pair[0], pair[1].lstrip("*")) for pair in words if len(pair) == 2]


def _damaged_part(archive: Path) -> str | None:
    """The first part of an archive that differs from its CRC-32; None if all are right."""
    try:
        with ZipFile(archive) as parts:
            return parts.testzip()
    except (BadZipFile, zlib.error, OSError, NotImplementedError, EOFError, ValueError) as error:
        return str(error)
