"""The command: what it refuses, and one event without a server."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import mistakes

import gedbd.commands.serve
from gedbd.commands.serve import LOCK_FILE
from gedbd.service.server import is_loopback, read_secret, read_token

pytestmark = pytest.mark.integration

SMALL = "opened._target_=small_index.open_small"
TOKEN = "a token of some length"
HOLD = """
import sys, time
from pathlib import Path
from gedbd.io.locks import sole_process
with sole_process(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Runs the command in this process, over the small index."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "helpers"))
    for name in ("GEDBD_TOKEN", "GITHUB_TOKEN", "GITHUB_WEBHOOK_SECRET", "GITHUB_REPOSITORY", "GITHUB_EVENT_NAME"):
        monkeypatch.delenv(name, raising=False)

    def run(*options: str) -> None:
        monkeypatch.setattr(sys, "argv", ["gedbd", f"index={tmp_path}", SMALL, *options])
        gedbd.commands.serve.main()

    return run


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("options", "message"), mistakes("serve"))
def test_what_makes_no_sense_is_refused(serve, options, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        serve(*options.split())


def test_a_port_in_use_is_refused(serve):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            SystemExit, match=rf"^error: host=127.0.0.1 port={port}: cannot listen there .* another port=,"
        ):
            serve(f"port={port}")


def test_what_is_not_installed_is_named(serve, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(SystemExit, match=r"^error: uvicorn is not installed: pip install 'gedbd\[serve\]'"):
        serve()


def test_a_token_opens_other_addresses(monkeypatch):
    monkeypatch.setenv("GEDBD_TOKEN", TOKEN)
    assert read_token("GEDBD_TOKEN", "0.0.0.0", False) == TOKEN
    monkeypatch.setenv("GEDBD_TOKEN", "short")
    with pytest.raises(ValueError, match="GEDBD_TOKEN must have 16"):
        read_token("GEDBD_TOKEN", "127.0.0.1", False)
    monkeypatch.delenv("GEDBD_TOKEN")
    assert read_token("GEDBD_TOKEN", "0.0.0.0", True) is None
    hosts = ("127.0.0.1", "::1", "localhost", "127.1.2.3", "0.0.0.0", "::", "10.0.0.1", "bugs.example")
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 4


def test_a_short_secret_is_refused_before_the_index_is_opened(serve, tmp_path, monkeypatch):
    for secret in ("fifteen letters", " sixteen letters and a blank"):
        monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", secret)
        with pytest.raises(SystemExit, match=r"^error: GITHUB_WEBHOOK_SECRET must have 16"):
            serve("webhook.repository=ann/mail")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", TOKEN)
    assert read_secret("GITHUB_WEBHOOK_SECRET") == TOKEN


def test_one_process_at_a_time_serves_a_folder(serve, tmp_path, capsys):
    event = {"action": "opened", "repository": {"full_name": "ann/mail"}, "issue": {"number": 70, "title": "x"}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    options = f"event={tmp_path}/event.json", "webhook.repository=ann/mail"
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / LOCK_FILE], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        held = {path.name for path in tmp_path.iterdir()}
        with pytest.raises(SystemExit, match=f"^error: index={tmp_path} is served by process {holder.pid} on .* since"):
            serve(*options)
        assert {path.name for path in tmp_path.iterdir()} == held
        holder.kill()
    serve(*options)
    result, shadow = capsys.readouterr().out.splitlines()
    assert result == "#70 added; comments: none (the best match is below the threshold 0.600)"
    assert shadow.startswith("Shadow mode: nothing is written to GitHub")
    assert (tmp_path / "closed").is_file()
