"""Suggestions for new reports: comments that name likely duplicates, and their outcomes.

An outcome follows from the duplicates in the index and from feedback, so that the record is a running backtest.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from gedbd.corpora.bug_report import Match, Report, is_closed_as_duplicate, original_of, state_of, state_phrase
from gedbd.corpora.feedback import FeedbackStore
from gedbd.evaluation.thresholds import TargetResult
from gedbd.io.console import escape_markdown, printable_line
from gedbd.service.event_table import EventTable
from gedbd.service.github_comments import MARKER
from gedbd.triage.stored_index import StoredIndex

MAX_SEARCHED = 10
MAX_TERMS = 5  # shared words shown for a match without other reasons
MAX_REASONS = 200  # characters
MAX_ENTRIES = 5_000  # later ones replace the oldest; judging all after each event takes 0.1 s
MAX_SHOWN = 50  # rows of a summary
RIGHT = "right"
WRONG = "wrong"
UNKNOWN = "not yet known"
MISSED = "missed"
NOTHING = "no duplicate known"
FindCalledDuplicates = Callable[[Sequence[str]], Collection[str]]


@dataclass(frozen=True)
class NamedReport:
    """A report that a comment names: its number, and the probability that the new report belongs to its group.

    ``state`` is in words or empty; ``reasons`` say in one line why it matches.
    """

    issue: str
    probability: float
    state: str
    reasons: str


@dataclass(frozen=True)
class Suggestion:
    """The suggestion for one new report."""

    issue: str  # its id
    named: tuple[NamedReport, ...] = ()  # the suggested reports, the most likely first; may be empty
    comment: str = ""  # the text of the comment; empty if nothing is suggested
    reason: str = ""  # why nothing is suggested
    is_list: bool = False  # whether the suggestion is right if any suggested report is, not only the first
    moment: str = ""  # when the report was compared, ISO 8601 in UTC
    mode: str = ""  # "shadow" if no comment is posted, else "comment"
    # with a suggestion "right", "wrong" or "not yet known"; without one "missed" if the report was marked as a
    # duplicate later, else "no duplicate known"
    outcome: str = UNKNOWN

    @property
    def measured(self) -> tuple[NamedReport, ...]:
        """The suggested reports that decide the outcome: the first, or all of a list."""
        return self.named if self.is_list else self.named[:1]

    @property
    def ids(self) -> str:
        """The numbers of the ``measured`` reports, such as "#12, #34"."""
        return ", ".join(f"#{report.issue}" for report in self.measured)

    @property
    def probability(self) -> float:
        """The probability that one of the ``measured`` reports is right."""
        return min(sum(report.probability for report in self.measured), 1.0)

    @property
    def sentence(self) -> str:
        """The suggestion and its probability in one sentence."""
        if self.is_list:
            chance = f"; the probability that one of them is right is {self.probability:.0%}"
        else:
            chance = f", with a probability of {self.probability:.0%}"
        return f"{self.ids} would be suggested{chance}"


def suggest_duplicates(
    index: StoredIndex,
    report: Report,
    max_named: int,
    target: TargetResult,
    called_duplicates: FindCalledDuplicates = lambda ids: (),
) -> Suggestion:
    """Suggests duplicates if the precision target was met and the best match reaches its threshold.

    For a target of lists, the sum of the best matches must reach it. The comment names the
    original of each group, not a report that is closed as a duplicate. ``max_named`` is the maximum number of suggested
    reports, except in a list; ``called_duplicates`` returns those of some ids that comments call duplicates.
    """
    threshold = target.suggest_from
    if threshold is None:
        return Suggestion(report.issue_id, reason=target.statement)
    matches = index.search(report, MAX_SEARCHED)
    is_list = target.list_length > 1
    if not target.is_reached([match.probability for match in matches]):
        below = f"the best {target.list_length} matches together are" if is_list else "the best match is"
        return Suggestion(report.issue_id, reason=f"{below} below the threshold {threshold:.3f}")
    measured = matches[: target.list_length]
    further = [] if is_list else [match for match in matches[1:] if match.probability >= threshold]
    originals = list(_named_reports(index, report, [*measured, *further], called_duplicates))
    for problem in originals[: len(measured)]:
        if isinstance(problem, str):  # not replaced by another match, as the backtest did not measure that
            return Suggestion(report.issue_id, reason=problem)
    named = tuple(original for original in originals if isinstance(original, NamedReport))[
        : max(max_named, len(measured))
    ]
    return Suggestion(report.issue_id, named, comment_text(named, target.evidence, is_list), is_list=is_list)


def comment_text(named: Sequence[NamedReport], evidence: str, is_list: bool) -> str:
    """The comment in Markdown, with the hidden marker."""
    best, *rest = map(_description, named)
    evidence = escape_markdown(evidence)
    if is_list:
        text = f"This may be a duplicate of one of these issues:\n{_bullets([best, *rest])}\n{evidence}\n\n"
    else:
        also = f"Also possible:\n{_bullets(rest)}\n" if rest else ""
        text = f"This may be a duplicate of {best}. {evidence}\n\n{also}"
    return f"{MARKER}\n{text}Nothing was closed or labelled: that decision is left to a person."


def _bullets(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _description(named: NamedReport) -> str:
    state = f", {escape_markdown(named.state)}" if named.state else ""
    why = f": {escape_markdown(named.reasons)}" if named.reasons else ""
    return f"#{named.issue} (probability {named.probability:.0%}{state}){why}"


def _named_reports(
    index: StoredIndex, report: Report, matches: Sequence[Match], called_duplicates: FindCalledDuplicates
) -> Iterator[NamedReport | str]:
    """The report to suggest for each match, or the reason why there is none."""
    for position, match in enumerate(matches):
        name = "best match" if position == 0 else f"match at rank {position + 1}"
        master = match.master.issue_id
        if report.issue_id in match.members:
            yield f"the {name}, {master}, is already linked"
            continue
        stored = index.get_many(match.members)
        group = [stored[member] for member in match.members if member in stored]
        original = original_of(group, called_duplicates(match.members))
        if original is None:
            yield f"the {name}, {master}, is closed as a duplicate, and its original is not in the index"
        elif not (original.issue_id.isascii() and original.issue_id.isdecimal()):
            yield f"the {name}, {master}, has no number"
        else:
            reasons = match.explanation.reasons or match.explanation.terms[:MAX_TERMS]
            line = printable_line(", ".join(reasons))[:MAX_REASONS]
            yield NamedReport(original.issue_id, match.probability, state_phrase(original), line)


@dataclass(frozen=True)
class SuggestionLog:
    """Stores one suggestion for each new report in a file that threads and processes may share."""

    table: EventTable

    def add(self, suggestion: Suggestion, mode: str) -> None:
        """Adds a suggestion with the current time, unless there is one for this report."""
        moment = datetime.now(UTC)
        content = asdict(replace(suggestion, moment=moment.isoformat(timespec="seconds"), mode=mode))
        with self.table.transaction():
            self.table.query(
                "INSERT OR IGNORE INTO events (kind, name, state, moment, content) VALUES ('compared', ?, ?, ?, ?)",
                *(suggestion.issue, suggestion.outcome, moment.timestamp(), json.dumps(content)),
            )
            first_kept = "SELECT number FROM events WHERE kind = 'compared' ORDER BY number DESC LIMIT 1 OFFSET ?"
            self.table.query(f"DELETE FROM events WHERE kind = 'compared' AND number < ({first_kept})", MAX_ENTRIES - 1)

    def read(self) -> list[Suggestion]:
        """All suggestions, the oldest first."""
        suggestions = []
        select = "SELECT content, state FROM events WHERE kind = 'compared' ORDER BY number"
        for content, outcome in self.table.query(select):
            stored = json.loads(content)
            named = tuple(NamedReport(**report) for report in stored["named"])
            suggestions.append(Suggestion(**stored | {"named": named, "outcome": outcome}))
        return suggestions

    def judge(self, index: StoredIndex, feedback: FeedbackStore) -> list[Suggestion]:
        """Updates all outcomes, and returns the suggestions, the oldest first."""
        suggestions = self.read()
        judged = with_outcomes(suggestions, index, feedback)
        changed = [after for before, after in zip(suggestions, judged, strict=True) if after != before]
        for suggestion in changed:
            update = "UPDATE events SET state = ? WHERE kind = 'compared' AND name = ?"
            self.table.query(update, suggestion.outcome, suggestion.issue)
        return judged


def with_outcomes(suggestions: Sequence[Suggestion], index: StoredIndex, feedback: FeedbackStore) -> list[Suggestion]:
    """Derives the outcomes of suggestions from the index and from feedback.

    A suggestion is right if its first report is in the group of the new report, or the pair was accepted. It is wrong
    if the pair was rejected, or the new report is in another group or closed, but not as a duplicate. A list is right
    if one of its reports is, and wrong by feedback only if all pairs were rejected.
    """
    groups = index.groups([suggestion.issue for suggestion in suggestions])
    stored = index.get_many([suggestion.issue for suggestion in suggestions if suggestion.named])
    judged = []
    for suggestion in suggestions:
        group = set(groups[suggestion.issue]) - {suggestion.issue}
        ids = {report.issue for report in suggestion.measured}
        if not ids:
            outcome = MISSED if group else NOTHING
        elif ids & group:
            outcome = RIGHT
        else:
            report = stored.get(suggestion.issue)
            verdicts = {feedback.verdict(suggestion.issue, issue) for issue in ids}
            is_wrong = bool(group) or verdicts == {"reject"}
            if report is not None and not is_closed_as_duplicate(report):
                is_wrong |= state_of(report) in ("fixed", "closed")
            outcome = RIGHT if "accept" in verdicts else WRONG if is_wrong else UNKNOWN
        judged.append(replace(suggestion, outcome=outcome))
    return judged


@dataclass(frozen=True)
class SuggestionCounts:
    """Numbers of compared reports, suggestions, and outcomes."""

    compared: int
    suggested: int
    right: int
    wrong: int
    unknown: int
    missed: int

    @property
    def sentence(self) -> str:
        """The counts in words."""
        if not self.compared:
            return "No new report has been compared yet."
        compared = f"{self.compared:,} new report{'s were' if self.compared > 1 else ' was'} compared"
        outcomes = f" ({self.right:,} right, {self.wrong:,} wrong, {self.unknown:,} not yet known)"
        suggested = f"{self.suggested:,} got a suggestion{outcomes if self.suggested else ''}"
        duplicates = "a duplicate" if self.missed == 1 else "duplicates"
        return f"{compared}, {suggested}; of the others, {self.missed:,} turned out to be {duplicates}."


def count_outcomes(suggestions: Sequence[Suggestion]) -> SuggestionCounts:
    """Counts suggestions by outcome."""
    suggested = sum(bool(suggestion.named) for suggestion in suggestions)
    outcomes = Counter(suggestion.outcome for suggestion in suggestions)
    return SuggestionCounts(
        len(suggestions), suggested, outcomes[RIGHT], outcomes[WRONG], outcomes[UNKNOWN], outcomes[MISSED]
    )


def summary_text(suggestions: Sequence[Suggestion], result: str, how_to_write: str) -> str:
    """A summary in Markdown for the page of a job: its result in one line, how to enable comments, all suggestions."""
    lines = ["### Suggested duplicates", "", escape_markdown(result), ""]
    if how_to_write:
        lines += [how_to_write, ""]
    lines += [count_outcomes(suggestions).sentence, ""]
    latest = [suggestion for suggestion in suggestions if suggestion.named][-MAX_SHOWN:][::-1]
    if latest:
        lines += ["| issue | compared on | suggested | probability | outcome |", "|---|---|---|---|---|"]
    for suggestion in latest:
        issue = escape_markdown(suggestion.issue)
        day = escape_markdown(suggestion.moment[:10])
        lines.append(f"| #{issue} | {day} | {suggestion.ids} | {suggestion.probability:.0%} | {suggestion.outcome} |")
    return "\n".join([*lines, ""])
