"""Listens on an address, and tells the service to end when the system says so."""

import os
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def check_installed() -> None:
    """Raises ValueError if a package is missing that only the service needs."""
    for package in ("fastapi", "prometheus_client", "uvicorn"):
        if find_spec(package) is None:
            raise ValueError(f"{package} is not installed: pip install 'gedbd[serve]'")


def read_token(token_env: str, host: str, allow_open: bool) -> str | None:
    """The token that requests must bring, from the environment.

    Raises:
        ValueError: If everybody could come in from elsewhere, or the token is too short to keep them out.
    """
    token = os.environ.get(token_env) or None
    if token is None and not allow_open and not is_loopback(host):
        raise ValueError(
            f"host={host} can be reached from elsewhere: set {token_env} in the environment, or allow_open=true"
        )
    if token is not None and (len(token) < 16 or not token.isascii() or token != token.strip()):
        raise ValueError(f"{token_env} must have 16 ASCII characters or more, without spaces around them")
    return token


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(app: "FastAPI", host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT; requests in flight are answered first.

    Raises:
        ValueError: If the port is none.
    """
    import uvicorn

    if not 0 <= port <= 65535:
        raise ValueError(f"port={port} must lie between 0 and 65535")
    uvicorn.run(app, host=host, port=port, log_level="info", access_log=False, server_header=False, proxy_headers=False)
