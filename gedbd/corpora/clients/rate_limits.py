"""Read from a response how long its tracker asks clients to wait."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from gedbd.corpora.dates import MAX_YEAR, parse_date, parse_mail_date

DEFAULT_WAIT_S = 60.0  # if a tracker states no time; GitHub asks for at least a minute
LAST_RESET = datetime(MAX_YEAR, 12, 31, tzinfo=UTC).timestamp()
MIN_EPOCH_S = 1e8  # a larger reset is a point in time, a smaller one a number of seconds
REMAINING = ("X-RateLimit-Remaining", "RateLimit-Remaining")
RESETS = ("X-RateLimit-Reset", "RateLimit-Reset")


def server_time(headers: Mapping[str, str], now: float) -> float:
    """Seconds since 1970 by the server's clock, or ``now`` if its headers hold no date."""
    date = _http_date(headers.get("Date", ""))
    return now if date is None else date


def limit_wait_s(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds until a refused request may be sent again; ``None`` if it was not refused by a rate limit.

    ``Retry-After`` takes precedence over the time at which the quota is renewed: ``X-RateLimit-Reset`` of GitHub
    (seconds since 1970) and Jira (ISO 8601), ``RateLimit-Reset`` of GitLab. All times are those of the server's clock.

    Args:
        status: HTTP status.
        headers: Headers of the response, case-insensitive.
        message: The server's message; GitHub's secondary limits appear only there.
        now: Seconds since 1970 by the local clock.
    """
    if status not in {403, 429, 503}:
        return None
    clock = server_time(headers, now)
    after = headers.get("Retry-After", "").strip()
    until = clock + float(after) if re.fullmatch(r"\d{1,9}", after) else _http_date(after)
    if until is None and any(headers.get(name, "").strip() == "0" for name in REMAINING):
        resets = [_reset(headers.get(name, ""), clock) for name in RESETS]
        until = next((reset for reset in resets if reset is not None), None)
    if until is not None:
        # One second more, because servers round their times.
        return max(1.0, math.ceil(until - clock) + 1.0)
    return DEFAULT_WAIT_S if status == 429 or (status == 403 and "rate limit" in message.lower()) else None


def _http_date(text: str) -> float | None:
    try:
        return parse_mail_date(text).timestamp()
    except ValueError:
        return None


def _reset(text: str, clock: float) -> float | None:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]*)?", text):
        until = float(text) if float(text) > MIN_EPOCH_S else clock + float(text)
        return until if until < LAST_RESET else None
    try:
        return parse_date(text).timestamp()
    except ValueError:
        return None
