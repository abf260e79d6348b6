"""Dates with names of months in the common languages, which Babel knows from Unicode's CLDR."""

import re
import unicodedata
from calendar import month_abbr
from collections import defaultdict
from functools import cache
from typing import Any

LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv", "da"),
    *("nb", "fi", "hu", "tr", "ru", "uk", "el", "ro", "zh"),
)
FURTHER = {"de": {"mrz": "Mar"}}  # Excel and Java 8 abbreviate März so; CLDR does not
MIN_PREFIX = 3  # letters of abbreviations that CLDR does not have, such as сен for сентября
WORD = re.compile(r"[^\W\d_]+")
DAY_PERIOD = re.compile(r"\b([ap])\.\s?m\.", re.IGNORECASE)
BEFORE_TIME = re.compile(r"(?<=\d{4})\W+[^\W\d_]+\.?\s+(?=\d+:)")  # 2. Januar 2024 um 9:05, 2 janvier 2024 à 09:05
# The point of "2. janv. 2024" and "02/janv./24" belongs to the name; that of "02.Jan.24" separates it from the year.
POINT = re.compile(r"(?<=[a-z])\.(?!\d)")


def to_english(text: str, language: str) -> str:
    """Replaces names of months by English abbreviations: "mardi 2 févr. 2024" becomes "2 Feb 2024".

    Names of days, and words such as ``de`` in Spanish dates, are removed.

    Args:
        text: A date; case and accents do not matter.
        language: One of ``LANGUAGES``.
    """
    names = _names(language)
    text = WORD.sub(
        lambda word: names.get(_folded(word[0]), word[0]), DAY_PERIOD.sub(r"\1m", BEFORE_TIME.sub(" ", text))
    )
    return " ".join(POINT.sub("", text).split()).strip(" ,.")


@cache
def _names(language: str) -> dict[str, str]:
    """Folded words of a language to English ones, or to nothing."""
    from babel import Locale

    locale = Locale.parse(language)
    quoted = re.findall(r"'([^']+)'", locale.date_formats["long"].pattern)
    days = [name for name, _ in _both_widths(locale.days)]
    periods = locale.day_periods["format"].get("abbreviated", {})
    months = {name: month_abbr[number] for name, number in _both_widths(locale.months)}
    prefixes: dict[str, set[str]] = defaultdict(set)
    for name, english in months.items():
        for length in range(MIN_PREFIX, len(name)):
            prefixes[name[:length]].add(english)
    return {
        **{_folded(word): "" for text in (*quoted, *days) for word in WORD.findall(text)},
        **{_folded(periods[period]): period for period in ("am", "pm") if period in periods},
        **{prefix: english.pop() for prefix, english in prefixes.items() if len(english) == 1},
        **months,
        **FURTHER.get(language, {}),
    }


def _both_widths(names: Any) -> list[tuple[str, int]]:
    """The folded names of months or days, abbreviated and in full, inflected and alone, and their numbers."""
    widths = [forms[width] for forms in names.values() for width in ("abbreviated", "wide")]
    return [(_folded(name.rstrip(".")), number) for width in widths for number, name in width.items()]


def _folded(text: str) -> str:
    """A word in lower case, without accents."""
    return "".join(sign for sign in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(sign))
