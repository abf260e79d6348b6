"""Fixtures that serve an index; the folders that use them import them in their conftest.py."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from local_server import running
from raw_http import until
from run_commands import commands_in
from small_github import REPOSITORY, SmallGitHub
from small_index import SmallIndex
from webhook_events import SECRET, Sender

from gedbd.service.app import create_app
from gedbd.service.github_comments import CommentClient
from gedbd.service.middleware import Settings
from gedbd.service.server import ConnectionLimits, build_server
from gedbd.service.webhook import Webhook
from gedbd.triage.stored_index import StoredIndex, open_index


@pytest.fixture
def index(tmp_path: Path) -> SmallIndex:
    folder = tmp_path / "index"
    folder.mkdir()
    return SmallIndex(folder)


@pytest.fixture
def client_of(index: SmallIndex) -> Iterator[Callable[..., TestClient]]:
    """Starts the service over the small index, in this process."""
    started: list[TestClient] = []

    def start(webhook: Webhook | None = None, **settings: object) -> TestClient:
        client = TestClient(create_app(index, Settings(**settings), webhook), base_url="http://localhost")
        started.append(client.__enter__())
        return client

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def hub() -> Iterator[SmallGitHub]:
    with running(SmallGitHub()) as server:
        yield server


@pytest.fixture
def hook_of(index: SmallIndex, hub: SmallGitHub) -> Iterator[Callable[..., Webhook]]:
    """Makes webhooks that post their comments on the small GitHub, and closes them."""
    made: list[Webhook] = []

    def make(
        url: str = hub.url,
        timeout_s: float = 2.0,
        deadline_s: float = 30.0,
        folder: Path = index.folder,
        posts: bool = True,
        suggest: str = "comment",
        **options: object,
    ) -> Webhook:
        github = CommentClient("t0ken", url, timeout_s, deadline_s) if posts else None
        over = index if folder == index.folder else SmallIndex(folder)
        made.append(Webhook(over, REPOSITORY, github, SECRET, suggest=suggest, **options))
        return made[-1]

    yield make
    for hook in made:
        hook.close()


@pytest.fixture
def hook(hook_of: Callable[..., Webhook]) -> Webhook:
    return hook_of()


@pytest.fixture
def send(client_of: Callable[..., TestClient], hook: Webhook) -> Sender:
    return Sender(client_of(hook), hook)


@pytest.fixture(scope="module")
def listening() -> Iterator[Callable[..., int]]:
    """Serves an app on a free port of this machine and gives the port."""
    with ExitStack() as running:
        yield lambda app, **limits: running.enter_context(serving(app, **limits))


@pytest.fixture(scope="session")
def stored_folder(tmp_path_factory) -> Path:
    """A folder with the demo corpus as the commands store it, and its cache; tests change copies of it."""
    folder = tmp_path_factory.mktemp("stored")
    with commands_in(folder) as run:
        run("backtest", "dataset=demo", "encoder=tiny", "max_replayed=60", "hydra.run.dir=tested")
        run("index", "run=tested", "out=index")
    return folder


@pytest.fixture(scope="module")
def stored_index(stored_folder: Path, tmp_path_factory) -> Iterator[StoredIndex]:
    folder = tmp_path_factory.mktemp("copied") / "index"
    shutil.copytree(stored_folder / "index", folder)
    index = open_index(folder, str(stored_folder / "cache"))
    yield index
    index.close()


@contextmanager
def serving(app: FastAPI, **limits: int) -> Iterator[int]:
    ear = socket.socket()
    ear.bind(("127.0.0.1", 0))
    server = build_server(app, ConnectionLimits(**limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [ear]})
    thread.start()
    until(lambda: server.started)
    try:
        yield int(ear.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
