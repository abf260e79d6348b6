"""A proxy in front of the service, with the configuration that the manual tells operators to copy."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raw_http import answers, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "proxy"
FILES = {"nginx": EXAMPLES / "nginx.conf", "caddy": EXAMPLES / "Caddyfile"}
NGINX = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {server}
}}
"""
# What a test cannot use of each configuration, and what it uses in its place.
CHANGES = {
    "nginx": (
        ("listen 443 ssl;", "listen 127.0.0.1:{port};"),
        ("server_name bugs.example.org;", "server_name localhost;"),
        ("    ssl_certificate /etc/ssl/certs/bugs.example.org.pem;\n", ""),
        ("    ssl_certificate_key /etc/ssl/private/bugs.example.org.key;\n", ""),
        ("127.0.0.1:8080", "127.0.0.1:{service_port}"),
    ),
    "caddy": (
        ("{\n    servers {", "{\n    admin off\n    servers {"),
        ("bugs.example.org {", "http://localhost:{port} {\n    bind 127.0.0.1"),
        ("127.0.0.1:8080", "127.0.0.1:{service_port}"),
    ),
}


def configuration(name: str, port: int, service_port: int) -> str:
    """The configuration of a proxy, for another port and without TLS."""
    server = FILES[name].read_text(encoding="utf-8")
    for written, other in CHANGES[name]:
        assert written in server
        server = server.replace(
            written, other.replace("{port}", str(port)).replace("{service_port}", str(service_port))
        )
    return NGINX.format(server=server) if name == "nginx" else server


@contextmanager
def proxied(program: str, folder: Path, service_port: int, port: int) -> Iterator[None]:
    """Runs nginx or Caddy on a port in front of the service until the block ends."""
    folder.mkdir()
    name = Path(program).name
    file = folder / "configuration"
    file.write_text(configuration(name, port, service_port))
    options = {
        "nginx": ["-p", f"{folder}/", "-c", str(file), "-e", str(folder / "error.log")],
        "caddy": ["run", "--adapter", "caddyfile", "--config", str(file)],
    }
    folders = {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}  # of Caddy
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [program, *options[name]], env=os.environ | folders, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: process.poll() is not None or answers(port))
        assert process.poll() is None, (folder / "output").read_text()
        yield
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
