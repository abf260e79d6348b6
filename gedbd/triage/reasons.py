"""Says in words why a ranker put a report first: the families of features that added most to its score."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

MAX_REASONS = 5
MAX_NAMED = 3  # identifiers
MIN_SHARE = 0.05  # of all that was added to a score
SAME_FIELDS = ("same product", "same component", "same version", "same priority")
NO_LIKENESS = {"days", "group size", "open"}
FAMILIES = {
    "title": ("title", "same title", "report title"),
    "text": ("text", "report text", "dense", "sum"),
    "identifiers": ("identifiers", "query identifiers"),
    "errors": ("errors",),
    "days": ("days", "reports since", "reports of component since"),
    "group size": ("group size",),
    "open": ("open",),
    **{name: (name,) for name in SAME_FIELDS},
}


def reasons(
    added: Mapping[str, float], values: Mapping[str, float], identifiers: Sequence[str], num_errors: int
) -> tuple[str, ...]:
    """Short phrases, the family of features that added most first.

    A family that added nothing, or about which there is no fact to state, such as another component, is left out. What
    is no sign that two reports are alike, such as a candidate that is open, is no reason by itself.

    Args:
        added: What each feature added to the score of a candidate, see ``ReportRanker.contributions``.
        values: The candidate's features by name.
        identifiers: The identifiers that both reports have, the rarest first.
        num_errors: Number of lines about errors that both reports have.
    """
    totals = dict.fromkeys(FAMILIES, 0.0)
    for name, value in added.items():
        family = _family(name)
        if family is not None:
            totals[family] += value
    least = MIN_SHARE * sum(value for value in totals.values() if value > 0)
    found = {}
    for family in sorted(totals, key=lambda one: -totals[one]):
        phrase = _phrase(family, values, identifiers, num_errors)
        if totals[family] > 0 and totals[family] >= least and phrase:
            found[family] = phrase
    if found.keys() <= NO_LIKENESS:
        return ()
    return tuple(found.values())[:MAX_REASONS]


@cache
def _family(name: str) -> str | None:
    """The family of a feature, None for one that is not told."""
    for family, prefixes in FAMILIES.items():
        if any(name == prefix or name.startswith(f"{prefix} ") for prefix in prefixes):
            return family
    return None


def _phrase(family: str, values: Mapping[str, float], identifiers: Sequence[str], num_errors: int) -> str:
    """The fact about a family; empty if there is none."""
    if family in SAME_FIELDS:
        return family if values[family] == 1 else ""
    if family == "title":
        return "same title" if values["same title"] == 1 else "similar title" if values["title shared"] > 0 else ""
    if family == "identifiers":
        named = ", ".join(identifiers[:MAX_NAMED])
        more = ", ..." if len(identifiers) > MAX_NAMED else ""
        return f"shared {named}{more}" if identifiers else ""
    if family == "errors":
        return f"{num_errors} equal error line{'s' if num_errors > 1 else ''}" if num_errors else ""
    if family == "days":
        return _days(values["days"])
    if family == "group size":
        size = round(float(np.exp(values["group size"])))
        return f"a group of {size} reports" if size > 1 else ""
    if family == "open":
        return "still open" if values["open"] == 1 else ""
    return "similar text"


def _days(logarithm: float) -> str:
    """How far two reports are apart, from log(1 + days)."""
    if np.isnan(logarithm):
        return ""
    days = float(np.expm1(logarithm))
    if days < 1:
        return "less than a day apart"
    count = round(days)
    return f"{count:,} day{'s' if count > 1 else ''} apart"
