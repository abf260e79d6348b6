"""Refusals in one line, those of tests/mistakes.csv too, calls of commands, damaged files, small disks."""

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest


def mistakes(tests: str) -> list[list[str]]:
    """Options and the message, literal or a pattern, that they end with: the rows of mistakes.csv for some tests."""
    with (Path(__file__).parents[1] / "mistakes.csv").open(encoding="utf-8", newline="") as file:
        return [words for group, *words in csv.reader(file) if group == tests]


@contextmanager
def refuses(message: str | re.Pattern[str], error: type[BaseException] = ValueError) -> Iterator[pytest.ExceptionInfo]:
    """Expects an error of one line with a message."""
    with pytest.raises(error, match=message) as refused:
        yield refused
    assert "\n" not in str(refused.value)


def call(command: ModuleType, *options: str) -> None:
    """Calls a command in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gedbd", *options])
        command.main()


def flip(file: Path, place: int, bits: int = 1) -> None:
    """Flips bits of one byte of a file."""
    content = bytearray(file.read_bytes())
    content[place] ^= bits
    file.write_bytes(content)


@contextmanager
def mounted_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own with a size; skips the test where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
