"""The lines of the manual's Bash blocks, those of README, CONTRIBUTING and all pages in docs, made ready and run."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from gedbd import __main__ as cli

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s+)#.*$", flags=re.MULTILINE)


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Language and text of each code block of a page, which is named by its path in the repository."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def lines_of(page: str) -> list[str]:
    """The command lines of a page's Bash blocks, in their order and without comments."""
    lines = []
    for language, text in blocks_of(page):
        if language == "bash":
            joined = text.replace("\\\n", " ")
            lines += [" ".join(line.split()) for line in COMMENT.sub("", joined).splitlines() if line.strip()]
    return lines


ALL_PAGES = [path.relative_to(ROOT).as_posix() for path in FILES]
PAGES = [page for page in ALL_PAGES if lines_of(page)]


RUN_FOLDER = re.compile(r"outputs/[\w/-]*RUN")
SHOWN_ADDRESS = "http://127.0.0.1:8080"
ADDRESS = re.compile(r"running on (http://[\d.:]+)")


def with_options(line: str, options: dict[str, str]) -> list[str]:
    """The words of a line, with the options of all beginnings that it has; a later one replaces an earlier one."""
    words = shlex.split(line)
    for beginning, added in options.items():
        if f"{line} ".startswith(f"{beginning} "):
            names = {f"{word.partition('=')[0]}=" for word in shlex.split(added)}
            words = [word for word in words if not word.startswith(tuple(names))]
            words += shlex.split(added)
    return words


def with_run_folders(text: str) -> str:
    """Text with the newest run folder in place of each that the manual writes as ``outputs/TRACKER/backtest/RUN``."""

    def newest(found: re.Match[str]) -> str:
        folders = list(Path().glob(found[0].replace("TRACKER", "*").replace("RUN", "*")))
        assert folders, f"no command has left a folder {found[0]}"
        return max(folders, key=lambda folder: folder.name).as_posix()  # named after the time of its start

    return RUN_FOLDER.sub(newest, text)


def run_line(words: Sequence[str]) -> None:
    """Runs a line in the current folder; a command of gedbd in this process, as a start of its own takes seconds."""
    words = [with_run_folders(word) for word in words]
    if words[:2] == ["gedbd", "serve"]:
        with service(words) as address:
            assert requests.get(f"{address}/api/health", timeout=20).ok
    elif words[:2] == ["gedbd", "mcp"]:
        run_in_bash(f"{shlex.join(words)} < /dev/null")
    elif words[0] == "gedbd":
        call(words)
    else:
        run_in_bash(shlex.join(words))


def call(words: Sequence[str]) -> None:
    """Calls a command of gedbd as its console script does."""
    status = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(words))
        patch.setenv("PYTHONSAFEPATH", "")  # the command sets it for its own process
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
    assert not status, f"{shlex.join(words)}\n{status}"


def run_in_bash(line: str) -> str:
    """Runs a line as a shell does, and returns what it printed."""
    # The project itself is on the path of a shell in which it is installed.
    line = line.replace("PYTHONPATH=.", f"PYTHONPATH=.:{ROOT}")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def ask_service(line: str) -> None:
    """Runs a line that asks the service of the manual's index for JSON."""
    with service(["gedbd", "serve", "index=my-index", "port=0"]) as address:
        answer = json.loads(run_in_bash(line.replace(SHOWN_ADDRESS, address)))
    assert answer.get("matches") or answer.get("recorded")


@contextmanager
def service(words: Sequence[str]) -> Iterator[str]:
    """Starts the service, gives its address, and stops it as Ctrl-C does."""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield address_of(process)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 0


def address_of(process: subprocess.Popen[str]) -> str:
    """The address that a service prints as soon as it listens."""
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if found := ADDRESS.search(line):
            return found[1]
    raise AssertionError(f"the service has ended:\n{told}")
