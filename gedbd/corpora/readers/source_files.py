"""The Java files of a folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# A folder with one of these is the root of a module: a "target" beside it is output, one inside a package is code.
ROOT_MARKS = frozenset(
    (".git", ".project", "build.gradle", "build.gradle.kts", "build.xml", "pom.xml", "settings.gradle", "src")
)


class SourceFiles(NamedTuple):
    """Files in alphabetical order, and warnings that count what was left out."""

    files: list[Path]
    warnings: tuple[str, ...]


def find_sources(folder: Path, skip_folders: Sequence[str], max_file_kb: int) -> SourceFiles:
    """The ``.java`` files below a folder.

    Left out, each with a count: hidden files and folders, symbolic links, pipes, build output, and files that are too
    large.

    Args:
        folder: The folder.
        skip_folders: Names of folders of build output; they count as such beside a build file or ``src``.
        max_file_kb: Largest file, in units of 1,000 bytes.

    Raises:
        OSError: If a folder cannot be read.
    """
    left_out: dict[str, list[str]] = {}
    files: list[Path] = []

    def is_kept(path: Path, reason: str) -> bool:
        if reason:
            left_out.setdefault(reason, []).append(path.relative_to(folder).as_posix())
        return not reason

    for place, folders, names in os.walk(folder, onerror=_refuse):
        skipped = skip_folders if ROOT_MARKS & {*folders, *names} else ()
        inner = [Path(place, name) for name in folders]
        # What stays in this list is looked into next.
        folders[:] = [path.name for path in inner if is_kept(path, _reason_folder(path, skipped))]
        sources = [Path(place, name) for name in names if name.endswith(".java")]
        files += [path for path in sources if is_kept(path, _reason_file(path, max_file_kb))]
    files.sort(key=lambda path: path.relative_to(folder).as_posix())
    counts = [f"{reason}: {len(found):,}, left out (first: {min(found)})" for reason, found in left_out.items()]
    return SourceFiles(files, tuple(sorted(counts)))


def _reason_folder(path: Path, skipped: Sequence[str]) -> str:
    """Why a folder is left out, empty if it is not."""
    if path.name in skipped:
        return "folders of build output (dataset.skip_folders)"
    return _reason_any(path)


def _reason_file(path: Path, max_file_kb: int) -> str:
    """Why a Java file is left out, empty if it is not."""
    reason = _reason_any(path)
    if not reason and not path.is_file():
        return "pipes and other special files"  # to read one may take forever
    if not reason and path.stat().st_size > 1000 * max_file_kb:
        return f"Java files of more than {max_file_kb:,} kB (dataset.max_file_kb)"
    return reason


def _reason_any(path: Path) -> str:
    if path.is_symlink():
        return "symbolic links to folders and Java files"
    return "hidden folders and Java files" if path.name.startswith(".") else ""


def _refuse(error: OSError) -> None:
    raise error
