"""Servers on this machine, in a thread of their own, and one that gives the same answer to every request."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=ThreadingHTTPServer)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Runs a server until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class LocalServer(ThreadingHTTPServer):
    """Listens on a free port."""

    handler: type[BaseHTTPRequestHandler]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.host}"


class Answering(BaseHTTPRequestHandler):
    """Handles requests by ``get`` and ``post`` of its subclass, without a line in the log."""

    def get(self) -> None:
        raise NotImplementedError

    def post(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.get()

    def do_HEAD(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def answer(
        self, status: int, content: object, headers: Mapping[str, str] | None = None, sent: int | None = None
    ) -> None:
        """Answers with bytes, or with JSON of anything else; only ``sent`` bytes of it go out."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])

    def log_message(self, format: str, *args: object) -> None:
        pass


class FixedAnswer(Answering):
    server: "FixedServer"

    def get(self) -> None:
        length = {"Content-Length": ""} if self.server.endless else {}
        try:
            self.answer(self.server.status, self.server.body, length | self.server.headers)
            while self.server.endless:
                self.wfile.write(self.server.body)
        except OSError:
            self.close_connection = True  # the client has closed the connection

    def send_header(self, keyword: str, value: str) -> None:
        if value:
            super().send_header(keyword, value)


class FixedServer(LocalServer):
    """Sends ``status``, ``headers`` and ``body`` at any address; an ``endless`` one repeats the body."""

    handler = FixedAnswer
    status = 200
    headers: dict[str, str] = {}
    body = b"[]"
    endless = False
