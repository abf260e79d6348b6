"""A server on this machine that answers as OpenAI-compatible endpoints do, and misbehaves on request."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Semaphore
from typing import Any, NamedTuple

import pytest
from local_server import Answering, LocalServer, running

KEY = "s3cret-key"
AT_ONCE = {"Retry-After": "0"}


class Reply(NamedTuple):
    """An answer; ``content`` becomes JSON unless it is bytes, of which only ``sent`` go out."""

    content: Any
    status: int = 200
    headers: dict[str, str] = {}
    sent: int | None = None


class Handler(Answering):
    server: "Endpoint"

    def post(self) -> None:
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append({"path": self.path, **request})
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.running += 1
            server.most_running = max(server.most_running, server.running)
            reply = server.faults.pop(0) if server.faults else server.answer(request)
        server.arrived.release()
        server.silence.wait(20)
        with server.lock:  # before the answer ends: the next request may begin at once
            server.running -= 1
        self.answer(reply.status, reply.content, {"Content-Type": "application/json"} | reply.headers, reply.sent)


class Endpoint(LocalServer):
    """Answers with ``faults`` first, each once, then as ``answer`` says."""

    handler = Handler

    def __init__(self) -> None:
        super().__init__()
        self.url += "/v1"
        self.faults: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Reply] = lambda request: told("seen")
        self.lock = Lock()
        self.running = self.most_running = 0
        self.arrived = Semaphore(0)
        self.silence = Event()
        self.silence.set()

    def shutdown(self) -> None:
        self.silence.set()
        super().shutdown()


def told(text: Any) -> Reply:
    """A chat completion."""
    return Reply({"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": text}}]})


def refused(status: int, message: str, **more: str) -> Reply:
    return Reply({"error": {"message": message, **more}}, status, AT_ONCE)


@contextmanager
def endpoint(patch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], Reply]) -> Iterator[Endpoint]:
    """An endpoint that the variables of the environment name."""
    with running(Endpoint()) as server:
        server.answer = answer
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr("gedbd.io.http.BACKOFF_S", 0.0)
        patch.setenv("OPENAI_BASE_URL", server.url)
        yield server
