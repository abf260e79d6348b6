"""Read trackers' tokens from the environment and build the headers that hold them."""

import base64
import os
from collections.abc import Mapping


def read_secret(variable: str) -> str:
    """The value of an environment variable, empty if it is not set.

    Raises:
        ValueError: The value cannot be sent in a header. The message does not show it.
    """
    value = os.environ.get(variable, "").strip()
    # Headers hold printable ASCII; a line break inside a token would start another header.
    if not all("!" <= character <= "~" for character in value):
        raise ValueError(f"{variable} holds spaces or characters that are not allowed in a token; set it again")
    return value


def bearer(variable: str) -> Mapping[str, str]:
    """The header of a bearer token, none without a token."""
    token = read_secret(variable)
    return {"Authorization": f"Bearer {token}"} if token else {}


def plain_header(name: str, variable: str) -> Mapping[str, str]:
    """A header whose whole value is the token, none without a token."""
    token = read_secret(variable)
    return {name: token} if token else {}


def basic_or_bearer(user_variable: str, variable: str) -> Mapping[str, str]:
    """Basic authentication if a user is set, as Jira Cloud requires, else a bearer token, as Jira Server does.

    Raises:
        ValueError: A user is set without a token.
    """
    user = read_secret(user_variable)
    token = read_secret(variable)
    if user and not token:
        raise ValueError(f"{user_variable} is set but {variable} is not: set both or neither")
    if not user:
        return bearer(variable)
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}
