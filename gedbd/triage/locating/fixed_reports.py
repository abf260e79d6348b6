"""The fixed reports that a ranker of a tracker reads beside the text of a new one, and their file."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes
from gedbd.retrieval.changes.ranker import ChangeRanker, Suspect

FIXES = "fixes.json"
FORMAT = 1


class _Bound(NamedTuple):
    history: ChangeHistory
    fixes: KnownFixes


class TrackerRanker:
    """A ranker with the fixed reports of its tracker.

    Args:
        ranker: Scores commits.
        fixes: The fixed reports; a query reads those that were known before it.
    """

    def __init__(self, ranker: ChangeRanker, fixes: Sequence[KnownFix] = ()) -> None:
        self.ranker = ranker
        self.fixes = fixes
        self._bound: _Bound | None = None

    def find(self, history: ChangeHistory, query: ChangeQuery, top_k: int = 10) -> list[Suspect]:
        """See ``ChangeRanker.find``."""
        return self.ranker.find(history, query, top_k, fixes=self._fixes(history))

    def is_of(self, history: ChangeHistory) -> bool:
        """Whether a fixed report names a commit of a history, or there are none."""
        named = {id_ for fix in self.fixes for id_ in (*fix.fixing, *fix.inducing)}
        return not named or not named.isdisjoint(history.ids)

    def _fixes(self, history: ChangeHistory) -> KnownFixes:
        """The fixed reports with the rows of a history, kept until another history is asked for."""
        bound = self._bound  # read once: another thread may replace it
        if bound is None or bound.history is not history:
            bound = _Bound(history, KnownFixes(history, self.fixes))
            self._bound = bound
        return bound.fixes


def fixes_as_json(fixes: Sequence[KnownFix]) -> str:
    """Fixed reports as text, to store them."""
    rows = [{**fix._asdict(), "known_at": fix.known_at.isoformat()} for fix in fixes]
    return json.dumps({"format": FORMAT, "fixes": rows}) + "\n"


def read_fixes(text: str) -> list[KnownFix]:
    """The fixed reports that ``fixes_as_json`` was called with.

    Raises:
        ValueError: If the text is damaged.
    """
    try:
        stored = json.loads(text)
        if stored["format"] != FORMAT:
            raise ValueError(f"not of format {FORMAT}")
        return [_fix(**row) for row in stored["fixes"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no list of fixed reports: {error}") from error


def _fix(title: str, description: str, known_at: str, fixing: list[str], inducing: list[str]) -> KnownFix:
    for value in (title, description, *fixing, *inducing):
        if not isinstance(value, str):
            raise TypeError("a text is missing")
    moment = pd.Timestamp(known_at)
    if moment.tzinfo is None:
        raise ValueError("a date has no time zone")
    return KnownFix(title, description, moment, tuple(fixing), tuple(inducing))
