"""Web addresses of reports: which are safe to show, and templates that make them from ids."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import pandas as pd

MAX_URL_LENGTH = 2_000
URL_OF = "url of "
MAX_REDIRECTS = 5
ID_COLUMNS = ("id", "report", "suggested")  # columns of result tables with ids of reports
PLACEHOLDER = "{issue_id}"
# A host without user name and password, then anything without white space and the delimiters of HTML and Markdown.
WEB_URL = re.compile(r"https?://[^\s/?#@\\<>\"{}]+(?:[/?#][^\s<>\"]*)?", re.IGNORECASE)
BEFORE_PLACEHOLDER = re.compile(r"https?://[^\s/?#@\\<>\"{}]+/[^\s<>\"]*", re.IGNORECASE)

MAX_SHOWN_LENGTH = 300
SLASHES = re.compile(r"[/\\]{2}")
SHOWN_PARAMETERS = {
    *("page", "per_page", "state", "sort", "direction", "since", "order", "order_by", "scope", "startAt", "maxResults"),
    *("limit", "offset", "f1", "o1", "v1", "ids", "created_after", "updated_after", "last_change_time"),
}
PARAMETER_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
PLAIN_VALUE = re.compile(r"\d{1,18}|[a-z_]{1,20}|\d{4}[\d:.TZA%+-]{1,36}", re.ASCII)


def web_url(text: str) -> str:
    """The stripped address if it is safe to show as a link, else an empty text.

    Safe are http and https addresses without a password and control characters; ``javascript:`` and ``file:`` are not.
    """
    url = text.strip()
    is_safe = len(url) <= MAX_URL_LENGTH and url.isprintable() and WEB_URL.fullmatch(url) is not None
    return url if is_safe else ""


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
    place, _, query = printable.partition("#")[0].partition("?")
    slashes = SLASHES.search(place)
    start = slashes.end() if slashes else 0
    host, slash, path = place[start:].partition("/")
    shown = f"{place[:start]}{host.rpartition('@')[2]}{slash}{path}"
    if query:
        shown += "?" + "&".join(_shown_parameter(parameter) for parameter in query.split("&"))
    return shown if len(shown) <= MAX_SHOWN_LENGTH else shown[:MAX_SHOWN_LENGTH] + "..."


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


def check_template(template: str | None) -> None:
    """Raise ValueError unless a template is null, or an http or https address with ``{issue_id}`` in its path."""
    if template is None:
        return
    before, placeholder, _ = str(template).partition(PLACEHOLDER)
    if not placeholder or not BEFORE_PLACEHOLDER.fullmatch(before) or not web_url(fill_template(template, "1")):
        raise ValueError(
            f"dataset.url_template={template} must be an http or https address with {PLACEHOLDER} after its host: "
            f"\"dataset.url_template='https://bugs.example.org/show_bug.cgi?id={PLACEHOLDER}'\""
        )


def fill_template(template: str, id_: str) -> str:
    """The address of a report: the template with the percent-encoded id."""
    return template.replace(PLACEHOLDER, quote(id_, safe=""))


def report_urls(reports: pd.DataFrame, template: str | None) -> tuple[pd.Series, list[str]]:
    """The address of each report: its own, or else the template's.

    Args:
        reports: ``id`` and ``url``, indexed by row in the source.
        template: An address with ``{issue_id}``; null for none.

    Returns:
        The addresses, empty if unknown, and a warning that counts those that are not web addresses.

    Raises:
        ValueError: The template is not a web address, or lacks ``{issue_id}``.
    """
    check_template(template)
    urls = pd.Series([web_url(url) for url in reports["url"]], index=reports.index, dtype=str)
    dropped = (urls == "") & (reports["url"].str.strip() != "")
    warnings = []
    if dropped.any():
        count = f"{dropped.sum():,}, dropped; the reports are kept (first: row {dropped.idxmax()})"
        warnings.append(f"addresses of reports that are not http or https: {count}")
    if template is not None:
        filled = [fill_template(template, id_) for id_ in reports["id"]]
        urls = urls.mask(urls == "", pd.Series(filled, index=urls.index, dtype=str))
    return urls, warnings


def with_urls(table: pd.DataFrame, reports: pd.DataFrame, columns: Sequence[str] = ID_COLUMNS) -> pd.DataFrame:
    """A table with the addresses of its reports, in a column ``url of <column>`` after each column of ids.

    Args:
        table: Any table.
        reports: ``id`` and ``url`` of all reports.
        columns: Columns with ids; the table may lack some.

    Returns:
        A new table, without a column of addresses where none is known.
    """
    url_of = reports.set_index("id")["url"]
    linked = table.copy()
    # Positions are those in the new table, which grows with each inserted column.
    for column in (name for name in columns if name in table):
        urls = table[column].map(url_of).fillna("")
        if (urls != "").any():
            linked.insert(list(linked.columns).index(column) + 1, f"{URL_OF}{column}", urls)
    return linked
