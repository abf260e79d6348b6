"""No command contacts another machine: neither by itself nor by a library that it uses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Python reads it when a process starts, those that a command starts included.
RECORDER = """
import os, sys

def record(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        place = arguments[1]
        told = place[0] if isinstance(place, tuple) else "unix"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        told = arguments[0]
    else:
        return
    told = told.decode() if isinstance(told, bytes) else str(told)
    if told not in ("127.0.0.1", "::1", "localhost", "unix", "None", ""):
        with open(os.environ["TRACE"], "a") as file:
            file.write(f"{event} {told} {sys.argv}\\n")

sys.addaudithook(record)
"""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder to run commands in, and their environment: a fresh home, no switch that keeps a library off the net."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(RECORDER)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_", "WANDB_"))
    }
    for name in ("CI", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "DO_NOT_TRACK"):
        kept.pop(name, None)
    own = {"HOME": str(tmp_path), "TRACE": str(tmp_path / "trace"), "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    (tmp_path / "repository").mkdir()
    author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    remote = ["remote", "add", "origin", "https://example.invalid/repository"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "Crash"], remote):
        subprocess.run(["git", *words], cwd=tmp_path / "repository", check=True)
    return tmp_path, kept | own | {"GEDBD_CACHE": str(tmp_path / "cache")}


def run(place: tuple[Path, dict[str, str]], code: str, before: tuple[str, ...] = ()) -> None:
    folder, environment = place
    done = subprocess.run(
        [*before, sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trace = folder / "trace"
    assert not trace.exists(), trace.read_text()


COMMANDS = """
import sys
from gedbd import __main__ as cli
for words in {lines!r}:
    sys.argv = ["gedbd", *words.split()]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
"""
LINES = [
    "index dataset=demo +dataset.last_n=60 out=index encoder=tiny",
    "search crash index=index",
    "describe dataset=demo",
    "backtest dataset=demo encoder=tiny",
    "train dataset=demo encoder=tiny graph=none trainer.max_epochs=1 trainer.accelerator=cpu logger=csv",
    "baseline name=bm25 dataset=demo",
    "locate repo=repository Crash",
]
SERVE = """
from fastapi.testclient import TestClient
from gedbd.service.app import create_app
from gedbd.triage.stored_index import open_index
with TestClient(create_app(open_index("index", "cache")), base_url="http://localhost") as client:
    for path in ("/", "/docs", "/metrics", "/api/health"):
        assert client.get(path).status_code == 200, path
    assert client.post("/api/search", json={"title": "crash"}).status_code == 200
"""


def test_the_recorder_sees_a_connection(place):
    with pytest.raises(AssertionError, match=r"getaddrinfo example.invalid"):
        run(place, "import socket\ntry:\n    socket.getaddrinfo('example.invalid', 80)\nexcept OSError: pass\n")


def test_all_commands_run_without_a_connection(place):
    run(place, COMMANDS.format(lines=LINES) + SERVE)


def test_all_commands_run_on_a_machine_without_a_network(place):
    without = ("unshare", "-n", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*without, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not make a network namespace: unshare -n is refused")
    run(place, COMMANDS.format(lines=LINES) + SERVE, without)
