"""Listens on an address and serves until a signal; checks the token and the limits of the system first."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from gedbd.service.connections import ConnectionLimits
    from gedbd.service.shutdown import Server

BACKLOG = 64  # connections that wait to be accepted, and that are accepted at once
OTHER_FILES = 64  # descriptors for the index, the log and libraries


def check_installed() -> None:
    """Raises ValueError if a package is missing that only the service needs."""
    for package in ("fastapi", "prometheus_client", "uvicorn"):
        if find_spec(package) is None:
            raise ValueError(f"{package} is not installed: pip install 'gedbd[serve]'")


def read_token(token_env: str, host: str, allow_open: bool) -> str | None:
    """The token that requests must bring, from the environment.

    Args:
        token_env: Name of the environment variable.
        host: The address that the service listens on.
        allow_open: Allow an address that other machines can reach without a token.

    Raises:
        ValueError: If other machines could use the service without a token, or the token is invalid.
    """
    token = os.environ.get(token_env) or None
    if token is None and not allow_open and not is_loopback(host):
        raise ValueError(
            f"host={host} can be reached from other machines: set {token_env} in the environment, or allow_open=true"
        )
    if token is not None:
        _check_length(token_env, token)
    return token


def read_secret(secret_env: str) -> str | None:
    """The secret by which GitHub signs its events, from an environment variable; None if it is not set.

    Raises:
        ValueError: If it is so short that it can be guessed, or invalid.
    """
    secret = os.environ.get(secret_env) or None
    if secret is not None:
        _check_length(secret_env, secret)
    return secret


def _check_length(name: str, value: str) -> None:
    if len(value) < 16 or not value.isascii() or value != value.strip():
        raise ValueError(f"{name} must have 16 ASCII characters or more, without spaces around them")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(app: "FastAPI", host: str, port: int, limits: "ConnectionLimits") -> None:
    """Serves until SIGTERM or SIGINT; requests in flight are answered for ``limits.shutdown_grace_s`` more seconds.

    Raises:
        ValueError: If the port is invalid, or the system allows too few open files.
    """
    from uvicorn.config import LOGGING_CONFIG

    if not 0 <= port <= 65535:
        raise ValueError(f"port={port} must lie between 0 and 65535")
    allow_descriptors(limits.max_connections)
    server = build_server(app, limits, host, port, LOGGING_CONFIG)
    with suppress(KeyboardInterrupt):  # uvicorn raises signals again after handling them
        server.run()
    server.exit_if_unfinished()
    if not server.started:
        sys.exit(1)


def build_server(
    app: "FastAPI",
    limits: "ConnectionLimits",
    host: str = "127.0.0.1",
    port: int = 0,
    log_config: dict[str, Any] | None = None,
) -> "Server":
    """A server for an app; ``run`` starts it.

    Args:
        app: The result of ``create_app``.
        limits: Limits of connections.
        host: The address to listen on, unless ``run`` is given sockets.
        port: The port; 0 takes a free one.
        log_config: Configuration of uvicorn's log; None leaves its messages to the existing handlers.
    """
    from uvicorn import Config

    from gedbd.service.connections import KEEP_ALIVE_S, BoundedProtocol, OpenConnections
    from gedbd.service.shutdown import Server

    service = app.state.service
    config = Config(
        app,
        host=host,
        port=port,
        loop="asyncio",
        http=BoundedProtocol,
        ws="none",  # without websockets each connection belongs to one request at a time
        log_config=log_config,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anyone can send X-Forwarded-For
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    closed = service.metrics.closed
    state = OpenConnections(limits, lambda reason: closed.labels(reason).inc())
    return Server(config, state, service.pools)


def allow_descriptors(max_connections: int) -> None:
    """Raises the limit of open files of this process to what so many connections need.

    Raises:
        ValueError: If the system allows fewer.
    """
    if sys.platform == "win32":  # has no such limit
        return
    import resource

    needed = max_connections + BACKLOG + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ValueError(
            f"connections.max_connections={max_connections} needs {needed} open files and the system allows {hard}"
            " (ulimit -Hn): lower the option or raise the limit"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
