"""Recognises in which format a column of dates is written."""

from collections.abc import Iterable
from datetime import datetime
from itertools import product

from gedbd.corpora.dates import ISO_FORMAT, parse_date

MAX_READ = 5_000  # dates; later ones are in the same format
DAY_FIRST = ("%d/%m/%Y", "%d-%m-%Y", "%d/%m/%y")
MONTH_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y")
OTHERS = ("%d.%m.%Y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d/%b/%Y", "%d/%b/%y")
TWELVE_HOURS = (" %I:%M %p", " %I:%M:%S %p", ", %I:%M %p", ", %I:%M:%S %p")
TIMES = ("", " %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S", " %H:%M:%S %z", *TWELVE_HOURS)
MAILS = ("%a, %d %b %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y")
FORMATS = (*(day + time for day, time in product((*DAY_FIRST, *MONTH_FIRST, *OTHERS), TIMES)), *MAILS)


def find_format(texts: Iterable[str]) -> str:
    """The format in which some dates are written.

    Args:
        texts: The dates; empty ones do not count.

    Returns:
        ``ISO8601``, or as in ``datetime.strptime``; ``ISO8601`` too if no format reads all dates.

    Raises:
        ValueError: It cannot be told whether days or months come first.
    """
    written = list(dict.fromkeys(text.strip() for text in texts if text.strip()))[:MAX_READ]
    if not written or any(_reads(text, ISO_FORMAT) for text in written):
        return ISO_FORMAT
    found = [form for form in FORMATS if all(_reads(text, form) for text in written)]
    if not found:
        return ISO_FORMAT
    # Accounts in US English write months first, and few others count twelve hours.
    if found[0].endswith(TWELVE_HOURS):
        return found[-1]
    readings = {tuple(datetime.strptime(text, form) for text in written) for form in found}
    if len(readings) > 1:
        raise ValueError(
            f"dates such as {written[0]!r} may begin with the day or with the month: set dataset.date_format="
            f"{found[0]!r} or dataset.date_format={found[1]!r}"
        )
    return found[0]


def _reads(text: str, form: str) -> bool:
    try:
        if form == ISO_FORMAT:
            parse_date(text)
        else:
            datetime.strptime(text, form)
    except ValueError:
        return False
    return True
