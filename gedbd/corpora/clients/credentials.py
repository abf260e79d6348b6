"""Secrets of trackers: taken from the environment, and made into headers that go to the tracker's own host only."""

import base64
import os
from collections.abc import Mapping


def read_secret(variable: str) -> str:
    """What an environment variable holds, empty where it is not set.

    Raises:
        ValueError: It cannot be sent in a header; the message does not show it.
    """
    value = os.environ.get(variable, "").strip()
    if not all("!" <= sign <= "~" for sign in value):
        raise ValueError(f"{variable} holds blanks or signs that no token has; set it anew")
    return value


def bearer(variable: str) -> Mapping[str, str]:
    """Header of a bearer token."""
    token = read_secret(variable)
    return {"Authorization": f"Bearer {token}"} if token else {}


def plain_header(name: str, variable: str) -> Mapping[str, str]:
    """Header that holds nothing but the token."""
    token = read_secret(variable)
    return {name: token} if token else {}


def basic_or_bearer(user_variable: str, variable: str) -> Mapping[str, str]:
    """Basic authentication where a user is named too, as Jira Cloud wants it, else a bearer token, as Jira Server does.

    Raises:
        ValueError: There is a user without a token.
    """
    user, token = read_secret(user_variable), read_secret(variable)
    if user and not token:
        raise ValueError(f"{user_variable} is set and {variable} is not: set both, or none")
    if not user:
        return bearer(variable)
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}
