"""Listens on an address and serves until a signal; checks the address and the token first."""

import asyncio
import errno
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

BACKLOG = 64  # length of the listen queue, and connections accepted in one go
CLOSE_S = 3.0  # after the service starts to close, until the process is ended by force
LOG_EVERY_S = 10.0
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of uvicorn. They do not bound how slowly a client may send or read: a buffering proxy does."""

    max_connections: int = 256  # number of open connections at which further requests get a 503
    keep_alive_s: int = 5  # how long a connection stays open after an answer, in seconds
    # how long requests in flight may take after a signal to stop, in seconds. The process exits at most three seconds
    # later.
    shutdown_grace_s: int = 5


class RepeatedMessages(logging.Filter):
    """Keeps clients from filling the log: each kind of warning or error is logged once every ten seconds at most.

    The line says how many were left out. Cancelled requests at shutdown and a lack of file descriptors
    are logged without a traceback; any other exception passes unchanged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}
        self._num_left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged; a logged one gets the number of records left out."""
        error = record.exc_info[1] if record.exc_info else None
        is_expected = isinstance(error, asyncio.CancelledError) or getattr(error, "errno", None) in OUT_OF_DESCRIPTORS
        if record.levelno < logging.WARNING or (error is not None and not is_expected):
            return True
        kind = str(record.msg).partition("\n")[0]
        # The absolute difference, as the clock may have been set back.
        if kind in self._logged_at and abs(record.created - self._logged_at[kind]) < LOG_EVERY_S:
            self._num_left_out[kind] += 1
            return False
        self._logged_at[kind] = record.created
        cause = f": {error}" if error is not None else ""
        repeated = self._num_left_out.pop(kind, 0)
        record.msg = kind + cause + (f" ({repeated:,} more times since the last line)" if repeated else "")
        record.exc_info = None
        return True


def check_installed() -> None:
    """Raises ValueError if a package is missing that only the service needs."""
    for package in ("fastapi", "prometheus_client", "uvicorn"):
        if find_spec(package) is None:
            raise ValueError(f"{package} is not installed: pip install 'gedbd[serve]'")


def read_token(token_env: str, host: str, allow_open: bool) -> str | None:
    """Reads the token that requests must send from an environment variable.

    Raises:
        ValueError: If other machines could use the service without a token and ``allow_open`` is not set, or the token
            is invalid.
    """
    token = read_secret(token_env)
    if token is None and not allow_open and not is_loopback(host):
        raise ValueError(
            f"host={host} can be reached from other machines: set {token_env} in the environment, or allow_open=true"
        )
    return token


def read_secret(name: str) -> str | None:
    """The value of an environment variable, such as the secret with which GitHub signs its events; None if not set.

    Raises:
        ValueError: If it is too short or invalid.
    """
    secret = os.environ.get(name) or None
    if secret is not None and (len(secret) < 16 or not secret.isascii() or secret != secret.strip()):
        raise ValueError(f"{name} must have 16 ASCII characters or more, without spaces around them")
    return secret


def check_proxy(host: str, proxy: bool) -> None:
    """Raises ValueError if other machines could connect to an address without a proxy in between."""
    if not proxy and not is_loopback(host):
        raise ValueError(
            f"host={host} can be reached from other machines, whose slow connections only a buffering proxy can"
            " limit: listen on 127.0.0.1 behind a proxy, or set proxy=true if there is one"
        )


def check_address(host: str, port: int) -> None:
    """Raises ValueError if the service cannot listen on an address, before the index is opened."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ValueError(
            f"host={host} port={port}: cannot listen there ({error.strerror or error}): choose another port=, or 0 for"
            " a free one"
        ) from error


def check_repository(repository: str | None) -> None:
    """Raises ValueError unless the repository of the webhook is "owner/name"."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository or "", re.ASCII):
        raise ValueError(f"webhook.repository={repository} must be owner/name, as GitHub spells it")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(app: "FastAPI", host: str, port: int, limits: ConnectionLimits) -> None:
    """Serves until SIGTERM or SIGINT; requests in flight are answered for ``limits.shutdown_grace_s`` more seconds."""
    from uvicorn.config import LOGGING_CONFIG

    closing = app.state.service.closing
    threading.Thread(target=_exit_in_time, args=(closing,), name="gedbd-shutdown", daemon=True).start()
    server = build_server(app, limits, host, port, LOGGING_CONFIG)
    repeated = RepeatedMessages()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(repeated)
    with suppress(KeyboardInterrupt):  # uvicorn raises signals again after handling them
        server.run()
    closing.set()  # not set yet if a second signal cut the shutdown short
    if not server.started:
        sys.exit(1)


def _exit_in_time(closing: threading.Event) -> None:
    """Ends the process if a thread or a file hangs, for which the interpreter would wait forever."""
    closing.wait()
    time.sleep(CLOSE_S)
    print("gedbd: exits while work still runs; acknowledged changes are on disk", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGTERM)  # as shells report a process that a signal ended


def build_server(
    app: "FastAPI",
    limits: ConnectionLimits,
    host: str = "127.0.0.1",
    port: int = 0,
    log_config: dict[str, Any] | None = None,
) -> "Server":
    """Builds a server; ``run`` starts it. Port 0 takes a free one; without ``log_config``, logging is unchanged."""
    from uvicorn import Config, Server

    config = Config(
        app,
        host=host,
        port=port,
        loop="asyncio",
        http="h11",
        ws="none",  # without websockets each connection belongs to one request at a time
        log_config=log_config,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anyone can send X-Forwarded-For
        backlog=BACKLOG,
        limit_concurrency=limits.max_connections,
        timeout_keep_alive=limits.keep_alive_s,
        timeout_graceful_shutdown=limits.shutdown_grace_s,
    )
    return Server(config)
