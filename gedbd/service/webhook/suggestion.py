"""What is said of a new report: a comment that names its likely duplicates, or the reason why there is none."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from gedbd.corpora.bug_report import Match, Report, original_of, state_phrase
from gedbd.evaluation.thresholds import TargetResult
from gedbd.io.console import escape_markdown, printable_line
from gedbd.service.webhook.github_comments import MARKER
from gedbd.triage.stored_index import StoredIndex

MAX_SEARCHED = 10
MAX_TERMS = 5  # shared words that are named where a match has no other reason
MAX_REASONS = 200  # characters
FindCalledDuplicates = Callable[[Sequence[str]], Collection[str]]


class NamedReport(NamedTuple):
    """A report that a comment names.

    Attributes:
        issue_id: Its id, a number.
        probability: That the new report belongs to its group.
        state: Its state in words; empty if unknown.
        reasons: Why it matches, in one line.
    """

    issue_id: str
    probability: float
    state: str
    reasons: str


class Suggestion(NamedTuple):
    """A comment, or the reason why there is none.

    Attributes:
        named: The reports that the comment names, the most likely first.
        body: The comment; empty if there is none.
        reason: Why there is none; empty if there is one.
        evidence: How often such suggestions were right, in one sentence.
        is_list: Whether any of the reports may be the right one, instead of the first.
    """

    named: tuple[NamedReport, ...]
    body: str
    reason: str
    evidence: str = ""
    is_list: bool = False

    @property
    def in_words(self) -> str:
        """What is suggested, and with which probability."""
        if not self.is_list:
            return (
                f"#{self.named[0].issue_id} would be suggested, with a probability of {self.named[0].probability:.0%}"
            )
        ids = ", ".join(f"#{one.issue_id}" for one in self.named)
        probability = min(sum(one.probability for one in self.named), 1)
        return f"{ids} would be suggested; the probability that one of them is right is {probability:.0%}"


def suggest_duplicates(
    index: StoredIndex,
    report: Report,
    max_named: int,
    target: TargetResult,
    called_duplicates: FindCalledDuplicates = lambda ids: (),
) -> Suggestion:
    """The comment on a new report, if the precision target was met and the best match reaches its threshold.

    For a target of lists, the best matches must reach it together. Of each group, the comment names the original, never
    a report that is closed as a duplicate.

    Args:
        index: The stored reports.
        report: The new report.
        max_named: Maximum number of reports that the comment names, without a list.
        target: What the backtest measured for the precision target.
        called_duplicates: Which of some reports comments call duplicates of others.
    """
    threshold = target.suggest_from
    if threshold is None:
        return Suggestion((), "", target.statement)
    matches = index.search(report, MAX_SEARCHED)
    is_list = target.list_length > 1
    if not target.is_reached([match.probability for match in matches]):
        below = f"the best {target.list_length} matches together are" if is_list else "the best match is"
        return Suggestion((), "", f"{below} below the threshold {threshold:.3f}")
    measured = matches[: target.list_length]
    others = [] if is_list else [match for match in matches[1:] if match.probability >= threshold]
    found = list(_named_reports(index, report, [*measured, *others], called_duplicates))
    for one in found[: len(measured)]:
        if isinstance(one, str):  # no other match replaces it, as none was measured in its place
            return Suggestion((), "", one)
    named = tuple(one for one in found if isinstance(one, NamedReport))[: max(max_named, len(measured))]
    return Suggestion(named, comment_text(named, target.evidence, is_list), "", target.evidence, is_list)


def comment_text(named: Sequence[NamedReport], evidence: str, is_list: bool = False) -> str:
    """The text of a comment in Markdown, with the hidden marker."""
    best, *others = map(_described, named)
    evidence = escape_markdown(evidence)
    if is_list:
        text = f"This may be a duplicate of one of these issues:\n{_bullets([best, *others])}\n{evidence}\n\n"
    else:
        also = f"Also possible:\n{_bullets(others)}\n" if others else ""
        text = f"This may be a duplicate of {best}. {evidence}\n\n{also}"
    return f"{MARKER}\n{text}Nothing was closed or labelled: that decision is left to a person."


def _bullets(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _described(named: NamedReport) -> str:
    state = f", {escape_markdown(named.state)}" if named.state else ""
    why = f": {escape_markdown(named.reasons)}" if named.reasons else ""
    return f"#{named.issue_id} (probability {named.probability:.0%}{state}){why}"


def _named_reports(
    index: StoredIndex, report: Report, likely: Sequence[Match], called_duplicates: FindCalledDuplicates
) -> Iterator[NamedReport | str]:
    """The report to name of each match, or the reason why there is none."""
    for place, match in enumerate(likely):
        which = "best match" if place == 0 else f"match at place {place + 1}"
        first = match.master.issue_id
        if report.issue_id in match.members:
            yield f"the {which}, {first}, is already linked"
            continue
        stored = index.get_many(match.members)
        group = [stored[one] for one in match.members if one in stored]
        original = original_of(group, called_duplicates(match.members))
        if original is None:
            yield f"the {which}, {first}, is closed as a duplicate, and the index does not hold the original"
        elif not (original.issue_id.isascii() and original.issue_id.isdecimal()):
            yield f"the {which}, {first}, has no number"
        else:
            why = match.explanation.reasons or match.explanation.terms[:MAX_TERMS]
            reasons = printable_line(", ".join(why))[:MAX_REASONS]
            yield NamedReport(original.issue_id, match.probability, state_phrase(original), reasons)
