"""How long a tracker asks to wait, read from the headers of its answers."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from gedbd.corpora.dates import MAX_YEAR, parse_date, parse_mail_date

UNSAID_S = 60.0  # where a tracker does not say how long; GitHub asks for at least a minute
LAST_RESET = datetime(MAX_YEAR, 12, 31, tzinfo=UTC).timestamp()
EPOCH_FROM = 1e8  # a reset above that is a point in time, below it a number of seconds
REMAINING = ("X-RateLimit-Remaining", "RateLimit-Remaining")
RESETS = ("X-RateLimit-Reset", "RateLimit-Reset")


def server_time(headers: Mapping[str, str], now: float) -> float:
    """Seconds since 1970 by the server's clock, ours (``now``) where it does not tell."""
    told = _http_date(headers.get("Date", ""))
    return now if told is None else told


def limit_wait_s(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds until a refused request may be sent again; ``None`` where no limit is the reason.

    ``Retry-After`` counts first. Then the time at which the quota is renewed: ``X-RateLimit-Reset`` of GitHub (seconds
    since 1970) and Jira (ISO 8601), ``RateLimit-Reset`` of GitLab. Times are taken by the server's own clock.

    Args:
        status: Status of the answer.
        headers: Headers of the answer, whatever their case.
        message: What the server says; GitHub's secondary limits show only there.
        now: Seconds since 1970 by our clock.
    """
    if status not in {403, 429, 503}:
        return None
    clock = server_time(headers, now)
    after = headers.get("Retry-After", "").strip()
    until = clock + float(after) if re.fullmatch(r"\d{1,9}", after) else _http_date(after)
    if until is None and any(headers.get(name, "").strip() == "0" for name in REMAINING):
        until = next((time for name in RESETS if (time := _reset(headers.get(name, ""), clock)) is not None), None)
    if until is not None:
        return max(1.0, math.ceil(until - clock) + 1.0)
    return UNSAID_S if status == 429 or (status == 403 and "rate limit" in message.lower()) else None


def _http_date(text: str) -> float | None:
    try:
        return parse_mail_date(text).timestamp()
    except ValueError:
        return None


def _reset(text: str, clock: float) -> float | None:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]*)?", text):
        until = float(text) if float(text) > EPOCH_FROM else clock + float(text)
        return until if until < LAST_RESET else None
    try:
        return parse_date(text).timestamp()
    except ValueError:
        return None
