"""An HTTP server that gives one answer to every request."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FixedServer(ThreadingHTTPServer):
    """Sends ``status``, ``headers`` and ``body`` at any address; an ``endless`` one repeats the body."""

    status = 200
    headers: dict[str, str] = {}
    body = b"[]"
    endless = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: FixedServer

    def do_GET(self) -> None:
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
        pass
