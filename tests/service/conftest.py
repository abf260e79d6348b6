import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from small_index import SmallIndex

from gedbd.service.app import Settings, create_app
from gedbd.service.webhook import Webhook


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


@pytest.fixture(scope="module")
def listening() -> Iterator[Callable[[FastAPI], int]]:
    """Serves an app on a free port of this machine and gives the port."""
    with ExitStack() as running:
        yield lambda app: running.enter_context(serving(app))


@contextmanager
def serving(app: FastAPI) -> Iterator[int]:
    ear = socket.socket()
    ear.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [ear]})
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield int(ear.getsockname()[1])
    server.should_exit = True
    thread.join()
