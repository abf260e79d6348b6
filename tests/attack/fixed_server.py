"""An HTTP server that gives one answer to every request."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class FixedServer(ThreadingHTTPServer):
    """Sends ``status``, ``headers`` and ``body`` at any address; an ``endless`` one repeats the body."""

    status = 200
    headers: dict[str, str] = {}
    body = b"[]"
    endless = False

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers GET requests."""

    server: FixedServer

    def do_GET(self) -> None:
        """Send the answer."""
        self.send_response(self.server.status)
        length = {} if self.server.endless else {"Content-Length": str(len(self.server.body))}
        for name, value in {**length, **self.server.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(self.server.body)
            while self.server.endless:
                self.wfile.write(self.server.body)
        except OSError:
            self.close_connection = True  # the client has closed the connection

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[FixedServer]:
    """A server that runs in a thread of its own."""
    with FixedServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
