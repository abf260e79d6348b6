"""Web addresses in messages without their secrets, and the check that an address is on the server that a user named."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

MAX_SHOWN_LENGTH = 300
SLASHES = re.compile(r"[/\\]{2}")
SHOWN_PARAMETERS = {
    *("page", "per_page", "state", "sort", "direction", "since", "order", "order_by", "scope", "startAt", "maxResults"),
    *("limit", "offset", "f1", "o1", "v1", "ids", "created_after", "updated_after", "last_change_time"),
}
PARAMETER_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
PLAIN_VALUE = re.compile(r"\d{1,18}|[a-z_]{1,20}|\d{4}[\d:.TZA%+-]{1,36}", re.ASCII)


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def check_same_server(url: str, asked: str, option: str, subdomains: bool = False) -> None:
    """Raises ValueError if a response leads from the address that the user named to another server.

    From http to https of the same host, both on their usual ports, is no other server.

    Args:
        url: Where it leads.
        asked: The address that the user named.
        option: What the address was set by, for the message.
        subdomains: Whether https addresses of hosts below the named one are allowed, too: archives keep files there.
    """
    scheme, host, port = origin(url)
    own = origin(asked)
    if (scheme, host, port) in (own, ("https", own[1], 443) if own[0::2] == ("http", 80) else own):
        return
    if subdomains and (scheme, port) == ("https", 443) and str(host).endswith(f".{own[1]}"):
        return
    raise ValueError(
        f"{shown_url(asked)}: it leads to {shown_url(url)}, which is another server: nothing was sent there; if it is"
        f" the right one, set {option}"
    )


def shown_url(url: str) -> str:
    """An address for messages: without user, password and fragment, and with ``***`` for values that may be secret.

    Values of ``SHOWN_PARAMETERS`` are shown if they look like a number, a word or a date. All others are hidden, since
    a token may have any name.
    """
    printable = "".join(sign for sign in url if sign.isprintable())
    location, _, query = printable.partition("#")[0].partition("?")
    slashes = SLASHES.search(location)
    start = slashes.end() if slashes else 0
    host, slash, path = location[start:].partition("/")
    printed = f"{location[:start]}{host.rpartition('@')[2]}{slash}{path}"
    if query:
        printed += "?" + "&".join(_shown_parameter(parameter) for parameter in query.split("&"))
    return printed if len(printed) <= MAX_SHOWN_LENGTH else printed[:MAX_SHOWN_LENGTH] + "..."


def _shown_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals or not PARAMETER_NAME.fullmatch(name):
        return "***"
    is_plain = name in SHOWN_PARAMETERS and PLAIN_VALUE.fullmatch(value) is not None
    return f"{name}={value if is_plain else '***'}"


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Prefixes the message of a ValueError with the address, unless it names the server already."""
    try:
        yield
    except ValueError as error:
        shown = shown_url(url)
        server = "/".join(shown.split("/")[:3])
        if server in str(error):
            raise
        raise ValueError(f"{shown}: {error}") from error
