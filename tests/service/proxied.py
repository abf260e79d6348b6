"""nginx in front of the service, with the configuration that the manual gives."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MANUAL = Path(__file__).parents[2] / "docs" / "guides" / "proxy.md"
WHOLE = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
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


def find_nginx() -> str | None:
    """The program, from Debian's package if there is none and it may be installed; None without one."""
    if shutil.which("nginx") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "nginx-light"]):
            subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True, timeout=300)
    return shutil.which("nginx")


def configuration(port: int, service_port: int) -> str:
    """The manual's configuration, for another port and without TLS."""
    found = re.search(r"```nginx\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    server = re.sub(r"\n *ssl_certificate.*", "", found[1])
    for written, other in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("server_name bugs.example.org;", "server_name localhost;"),
        ("127.0.0.1:8080", f"127.0.0.1:{service_port}"),
    ):
        assert written in server
        server = server.replace(written, other)
    return WHOLE.format(server=server)


@contextmanager
def proxied(nginx: str, folder: Path, service_port: int, port: int) -> Iterator[None]:
    """Runs nginx on a port in front of the service until the block ends."""
    folder.mkdir()
    file = folder / "nginx.conf"
    file.write_text(configuration(port, service_port))
    process = subprocess.Popen([nginx, "-p", f"{folder}/", "-c", str(file), "-e", str(folder / "error.log")])
    try:
        deadline = time.monotonic() + 20
        while process.poll() is None and not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(20)


def answers(port: int) -> bool:
    """Whether something listens on a port."""
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
