"""The record of what was said, or would have been said, of each new report, with the truth that came later.

It is a file of JSON lines in the index folder, one line a compared report. A line is added when the report arrives, and
its outcome follows from what the index knows later: a duplicate that a comment or a new index marks makes a suggestion
right or wrong. So the file is a backtest that runs along with the tracker.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gedbd.corpora.bug_report import is_closed_as_duplicate, state_of
from gedbd.corpora.feedback import FeedbackStore
from gedbd.io.console import escape_markdown
from gedbd.io.files import write_text
from gedbd.io.sqlite_file import DamagedFileError, StoreUnavailable
from gedbd.triage.stored_index import StoredIndex

LOG_FILE = "suggestions.jsonl"
# The oldest are dropped: the file is read, and its entries judged, after each event that changes something, in 0.1 s.
MAX_ENTRIES = 5_000
MAX_SHOWN = 50  # rows of a summary
LOCK_TIMEOUT_S = 10.0
RIGHT = "right"
WRONG = "wrong"
UNKNOWN = "not yet known"
MISSED = "missed"
NOTHING = "no duplicate known"
OUTCOMES = (RIGHT, WRONG, UNKNOWN, MISSED, NOTHING)


@dataclass(frozen=True)
class SuggestionEntry:
    """What was said of one new report.

    Attributes:
        issue: Its id.
        moment: When it was compared, ISO 8601 in UTC.
        mode: "shadow" if nothing was written, else "comment" or "native".
        named: The reports that the comment names: ``issue``, ``probability``, ``state`` and ``reasons`` of each, the
            most likely first; empty if nothing was suggested.
        comment: The text of the comment; empty if nothing was suggested.
        reason: Why nothing was suggested.
        outcome: With a suggestion "right", "wrong" or "not yet known"; without one "missed" if the report was marked as
            a duplicate later, else "no duplicate known".
        proposal: What became of a proposal to close the report, see ``gedbd.service.webhook.native_proposals``.
        is_list: Whether the suggestion is right if any of the named reports is, instead of the first.
    """

    issue: str
    moment: str
    mode: str
    named: list[dict[str, Any]] = field(default_factory=list)
    comment: str = ""
    reason: str = ""
    outcome: str = UNKNOWN
    proposal: str = ""
    is_list: bool = False

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Those named reports by which the outcome is decided: the first, or all of a list."""
        return self.named if self.is_list else self.named[:1]

    def names(self, issue_id: str) -> bool:
        """Whether the entry is about a report, or names it."""
        return issue_id == self.issue or any(one["issue"] == issue_id for one in self.named)


FIELDS = tuple(one.name for one in fields(SuggestionEntry))


@dataclass(frozen=True)
class SuggestionCounts:
    """How many reports were compared, how many got a suggestion, and how those turned out."""

    compared: int
    suggested: int
    right: int
    wrong: int
    unknown: int
    missed: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        if not self.compared:
            return "No new report was compared yet."
        compared = f"{self.compared:,} new report{'s were' if self.compared > 1 else ' was'} compared"
        outcomes = f" ({self.right:,} right, {self.wrong:,} wrong, {self.unknown:,} not yet known)"
        suggested = f"{self.suggested:,} got a suggestion{outcomes if self.suggested else ''}"
        missed = "1 turned out to be a duplicate"
        if self.missed != 1:
            missed = f"{self.missed:,} turned out to be duplicates"
        return f"{compared}, {suggested}; of the others, {missed}."


class SuggestionLog:
    """The file of one index. Threads and processes may share it.

    Args:
        path: The file; it is created with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: SuggestionEntry) -> bool:
        """Adds an entry, unless there is one for this report; returns whether it was added."""
        with self._locked():
            entries = self.read()
            if any(one.issue == entry.issue for one in entries):
                return False
            self._write([*entries, entry])
        return True

    def set_proposal(self, issue_id: str, proposal: str) -> None:
        """Records what became of the proposal to close a report."""
        with self._locked():
            entries = self.read()
            self._write([replace(one, proposal=proposal) if one.issue == issue_id else one for one in entries])

    def judge(self, index: StoredIndex, feedback: FeedbackStore) -> list[SuggestionEntry]:
        """Updates all outcomes by what is known now, and returns the entries, the oldest first."""
        with self._locked():
            entries = self.read()
            judged = with_outcomes(entries, index, feedback)
            if judged != entries:
                self._write(judged)
        return judged

    def forget(self, issue_id: str) -> None:
        """Erases the entries that are about a report or name it."""
        with self._locked():
            entries = self.read()
            kept = [one for one in entries if not one.names(issue_id)]
            if len(kept) < len(entries):
                self._write(kept)

    def read(self) -> list[SuggestionEntry]:
        """All entries, the oldest first.

        Raises:
            DamagedFileError: If a line is damaged; names it.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [self._entry(number, line) for number, line in enumerate(lines, 1)]

    def _entry(self, number: int, line: str) -> SuggestionEntry:
        try:
            plain = json.loads(line)
            named = plain.get("named", [])
            is_valid = plain["outcome"] in OUTCOMES and all({"issue", "probability"} <= set(one) for one in named)
            if is_valid and {"issue", "moment", "mode"} <= set(plain) <= set(FIELDS):
                return SuggestionEntry(**plain)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        raise DamagedFileError(f"{self.path}: line {number} is not a suggestion: delete the line, or the file")

    def _write(self, entries: Sequence[SuggestionEntry]) -> None:
        lines = [json.dumps(asdict(one)) + "\n" for one in entries[-MAX_ENTRIES:]]
        write_text(self.path, "".join(lines))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S):
                yield
        except Timeout as error:
            raise StoreUnavailable(f"{self.path} is in use by another process") from error


def with_outcomes(
    entries: Sequence[SuggestionEntry], index: StoredIndex, feedback: FeedbackStore
) -> list[SuggestionEntry]:
    """The entries with the outcomes that follow from the index and from feedback.

    A suggestion is right if the best of its reports is in the group of the new report, or somebody accepted the pair.
    It is wrong if somebody rejected the pair, or if the new report is in another group or closed for another reason
    than as a duplicate. A list is right if that holds for one of its reports, and wrong if somebody rejected all pairs.
    """
    duplicates = index.known_duplicates([one.issue for one in entries])
    stored = index.get_many([one.issue for one in entries if one.named])
    judged = []
    for entry in entries:
        others = duplicates[entry.issue]
        ids = {str(one["issue"]) for one in entry.measured}
        if not ids:
            outcome = MISSED if others else NOTHING
        elif ids & others:
            outcome = RIGHT
        else:
            report = stored.get(entry.issue)
            verdicts = {feedback.verdict(entry.issue, one) for one in ids}
            is_wrong = bool(others) or verdicts == {"reject"}
            if report is not None and not is_closed_as_duplicate(report):
                is_wrong |= state_of(report) in ("fixed", "closed")
            outcome = WRONG if is_wrong else UNKNOWN
            if "accept" in verdicts:
                outcome = RIGHT
        judged.append(replace(entry, outcome=outcome))
    return judged


def count_outcomes(entries: Sequence[SuggestionEntry]) -> SuggestionCounts:
    """The counts of entries."""
    suggested = sum(bool(one.named) for one in entries)
    outcomes = Counter(one.outcome for one in entries)
    return SuggestionCounts(
        len(entries), suggested, outcomes[RIGHT], outcomes[WRONG], outcomes[UNKNOWN], outcomes[MISSED]
    )


def summary_text(entries: Sequence[SuggestionEntry], result: str, how_to_write: str) -> str:
    """A summary in Markdown, for the page of a job.

    Args:
        entries: All entries, the oldest first.
        result: What was done, in one line.
        how_to_write: How to let gedbd write to GitHub, if it does not; empty if it does.
    """
    lines = ["### Suggested duplicates", "", escape_markdown(result), ""]
    if how_to_write:
        lines += [how_to_write, ""]
    lines += [count_outcomes(entries).sentence, ""]
    shown = [one for one in entries if one.named][-MAX_SHOWN:][::-1]
    if shown:
        lines += ["| issue | compared on | suggested | probability | outcome |", "|---|---|---|---|---|"]
    for one in shown:
        ids = ", ".join(f"#{named['issue']}" for named in one.measured)
        named = f"{ids} | {min(sum(float(named['probability']) for named in one.measured), 1):.0%}"
        lines.append(
            f"| #{escape_markdown(one.issue)} | {escape_markdown(one.moment[:10])} | {named} | {one.outcome} |"
        )
    return "\n".join([*lines, ""])
