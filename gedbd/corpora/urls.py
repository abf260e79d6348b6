"""Web addresses of reports: which are safe to show, and templates that build them from ids."""

import re
from collections.abc import Sequence
from urllib.parse import quote

import pandas as pd

MAX_URL_LENGTH = 2_000
URL_OF = "url of "
ID_COLUMNS = ("id", "report", "suggested")  # columns of result tables with ids of reports
PLACEHOLDER = "{issue_id}"
# A host without user name and password, then anything without white space and the delimiters of HTML and Markdown.
WEB_URL = re.compile(r"https?://[^\s/?#@\\<>\"{}]+(?:[/?#][^\s<>\"]*)?", re.IGNORECASE)
BEFORE_PLACEHOLDER = re.compile(r"https?://[^\s/?#@\\<>\"{}]+/[^\s<>\"]*", re.IGNORECASE)


def web_url(text: str) -> str:
    """The stripped address if it is safe to show as a link, else an empty text.

    Safe are http and https addresses without a password and control characters; ``javascript:`` and ``file:`` are not.
    """
    url = text.strip()
    is_safe = len(url) <= MAX_URL_LENGTH and url.isprintable() and WEB_URL.fullmatch(url) is not None
    return url if is_safe else ""


def check_template(template: str | None) -> None:
    """Raises ValueError unless a template is null, or an http or https address with ``{issue_id}`` after its host."""
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

    Returns:
        A new table; a column of addresses is left out if none is known.
    """
    url_of = reports.set_index("id")["url"]
    linked = table.copy()
    # Positions are those in the new table, which grows with each inserted column.
    for column in (name for name in columns if name in table):
        urls = table[column].map(url_of).fillna("")
        if (urls != "").any():
            linked.insert(list(linked.columns).index(column) + 1, f"{URL_OF}{column}", urls)
    return linked
