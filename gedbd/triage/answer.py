"""Reads the queries of ``gedbd search`` and prints its answers, as a table or as JSON lines."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from gedbd.corpora.bug_report import FIELD_NAMES, Match, Report, check_report, has_component, report_from_json
from gedbd.corpora.readers.export_pages import ExportPage, ExportRecord, read_pages, read_records, read_values, rows_in
from gedbd.corpora.readers.formats import recognise
from gedbd.corpora.readers.issue import Issue, reset_to_creation
from gedbd.corpora.readers.record_values import Record
from gedbd.corpora.urls import web_url
from gedbd.evaluation.thresholds import NOT_MEASURED, TargetResult
from gedbd.io.console import cut_cells, print_line, printable
from gedbd.triage.report_text import read_text, report_from_text, report_of_email, report_with_front_matter

FIELDS = ("title", "description", "product", "component", "version", "os", "priority")
MAX_KEYS = 8  # named in a message
JSON_LINES = (".jsonl", ".ndjson")
ISSUES = ".json"
EMAIL = ".eml"
TABLES = (".csv", ".tsv", ".xlsx")
LIKELY = 0.05  # the probabilities of an answer are shown if one of them is this high
PROBABLE = 0.5  # from this probability the best match is named in a sentence
EXPECTED = 'give a text, or a line such as {"title": "Crash", "description": "..."} for each report'
NOTHING_SHARED = "found nothing that the two reports share"
MAX_NAMED = 5  # further members of a group
MAX_COMPONENTS = 5  # named if a filter matches none


def report_of_issue(issue: Record) -> Report:
    """Converts a tracker's issue to a report, in its state at creation if the export has its history.

    Raises:
        ValueError: If it is not an issue, or is invalid.
    """
    parsed = reset_to_creation(_parse(issue))
    values: dict[str, Any] = {name: ", ".join(parsed.values.get(name, ())) for name in FIELDS}
    report = Report(**values, issue_id=parsed.issue_id, created_at=parsed.created_at)
    check_report(report)
    return report


def _records(page: ExportPage) -> Iterable[ExportRecord]:
    """The issues and reports of a page."""
    values = list(read_values(page))
    # Objects with the fields of a report are not pages of a tracker, which contain issues.
    if all(map(_is_report, values)):
        return [ExportRecord(f"{page.path}, record {number}", value) for number, value in enumerate(values, start=1)]
    return read_records(page)


def _is_report(value: Any) -> bool:
    """Whether an object has the fields of a report and no others."""
    return isinstance(value, dict) and value.keys() <= set(FIELD_NAMES) and not rows_in(value)


def _report(record: ExportRecord) -> Report:
    """The report of a record; raises ValueError with its position if it is invalid."""
    try:
        return report_from_json(record.record) if _is_report(record.record) else report_of_issue(record.record)
    except ValueError as error:
        raise ValueError(f"{record.position}: {error}") from error


def _parse(values: Record) -> Issue:
    """Reads an issue with the reader of its tracker."""
    tracker = recognise(values)
    if tracker not in {"github", "gitlab", "jira", "bugzilla"}:
        keys = ", ".join(list(values)[:MAX_KEYS]) or "none"
        raise ValueError(f"not an issue from GitHub, GitLab, Jira or Bugzilla; its keys are {keys}")
    reader = import_module(f"gedbd.corpora.readers.{tracker}")
    issue: Issue | str = reader.parse_issue({"number": 0, **values} if tracker == "github" else values)
    if isinstance(issue, str):
        raise ValueError(f"an issue is expected; these are {issue}")
    return issue if tracker != "github" or "number" in values else issue._replace(issue_id="")


def read_queries(text: str | None, file: str | None) -> Iterator[Report]:
    """Reports from a text, a file, or JSON lines, which are read lazily.

    Args:
        text: The report; its first line is the title.
        file: A file with such a text, which may begin with front matter. ``.eml``: an e-mail. ``.json``: issues as
            GitHub, GitLab, Jira and Bugzilla export them, or objects with the fields of ``Report``. ``.jsonl`` or ``-``
            (standard input): a report, an issue or a list of these on each line.

    Raises:
        ValueError: If neither or both are given, the file is missing or empty, or a line is invalid.
    """
    if (text is None) == (file is None):
        raise ValueError("give exactly one of: a text in quotes, file=report.txt, file=issue.json, or file=- for lines")
    if file == "-":
        # Bytes, as invalid UTF-8 would otherwise fail the whole line.
        return _read_lines((line.decode("utf-8", "replace") for line in sys.stdin.buffer), "standard input")
    if file is None:
        return iter([report_from_text(str(text))])
    path = Path(file).expanduser()
    if not path.is_file():
        raise ValueError(f"file={file}: no such file")
    if path.suffix.lower() == ISSUES:
        pages, _ = read_pages(path, ("json",))
        reports = [_report(record) for page in pages for record in _records(page)]
        if not reports:
            raise ValueError(f"file={file} holds no issue")
        return iter(reports)
    if path.suffix.lower() == EMAIL:
        return iter([_of_file(file, report_of_email, path.read_bytes())])
    if path.suffix.lower() in TABLES:
        raise ValueError(
            f"file={file}: tables are not supported: write each report as a JSON object with title and description,"
            " one per line, in a .jsonl file"
        )
    content = read_text(path)
    if not content.strip():
        raise ValueError(f"file={file} is empty: {EXPECTED}")
    if path.suffix.lower() in JSON_LINES:
        return _read_lines(content.split("\n"), file)
    return iter([_of_file(file, report_with_front_matter, content)])


def _of_file(file: str, parse: Callable[[Any], Report], content: bytes | str) -> Report:
    """The report of a file; raises ValueError that names the file."""
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError(f"file={file}: {error}") from error


def as_json(report: Report, matches: Sequence[Match], target: TargetResult, list_target: TargetResult) -> str:
    """One line of ASCII for programs: ``query``, ``threshold``, ``target``, ``list_statement`` and ``matches``.

    ``threshold`` is the lowest probability of automatic suggestions, or null; ``target`` is the result of the backtest,
    with ``statement`` in words; ``list_statement`` is the same for lists.
    """
    answer = {
        "query": asdict(report),
        "threshold": target.suggest_from,
        "target": asdict(target) | {"statement": target.statement},
        "list_statement": list_target.list_statement([match.probability for match in matches]),
        "matches": [asdict(match) for match in matches],
    }
    return json.dumps(answer, default=datetime.isoformat)


def print_matches(
    console: Console, report: Report, matches: Sequence[Match], target: TargetResult, lists: TargetResult, marked: str
) -> None:
    """Prints a table of matches, the measured precision of suggestions, and the ids of duplicates that are marked.

    Ids are links in a terminal with styles; elsewhere the addresses follow the table.
    """
    console.print(_printable(cut_cells(report.title, 100) or report.issue_id), style="italic", highlight=False)
    if marked:
        print_line(console, f"already marked as duplicates: {marked}")
    # The explanation is below its report: side by side, both would be too narrow for long words.
    table = Table(box=SIMPLE_HEAD, leading=1, show_edge=False, pad_edge=False)
    is_any_likely = any(match.probability >= LIKELY for match in matches)
    if matches and matches[0].probability >= PROBABLE and target.status != NOT_MEASURED:
        reasons = ", ".join(matches[0].explanation.reasons)
        sentence = f"Probably the same as {matches[0].master.issue_id}{reasons and ': '}{reasons}."
        console.print(_printable(sentence), highlight=False)
    if is_any_likely:
        table.add_column("probability", justify="right")
    elif matches:
        table.add_column("similarity", justify="right")
        print_line(console, f"{_nothing_likely(report, target, marked)} The best matches by the ranker's score:")
    table.add_column("report and explanation", overflow="fold")
    for match in matches:
        text = Text("\n").join([_describe(match), _printable(_explain(match))])
        table.add_row(f"{match.probability:.0%}" if is_any_likely else f"{match.similarity:.2f}", text)
    console.print(table if matches else "no candidates: the filters exclude every other report", highlight=False)
    if console.color_system is None:  # no styles, so no links
        for match in matches:
            address = web_url(match.master.url)
            if address:
                console.print(_printable(f"{match.master.issue_id}: {address}"), highlight=False, soft_wrap=True)
    is_suggested = any(target.is_reached([match.probability]) for match in matches)
    list_statement = lists.list_statement([match.probability for match in matches])
    if list_statement and not is_suggested:  # nothing new if a single match is suggested
        print_line(console, list_statement)
    if target.suggest_from is None:
        print_line(console, f"{target.statement} Check each match yourself.")
    elif is_suggested:
        print_line(console, f"Suggested from a probability of {target.suggest_from:.0%}. {target.statement}")


def unknown_component(component: str, known: Sequence[str]) -> str:
    """The message for a filter by an unknown component; empty if it is among ``known``, the most similar components."""
    if any(has_component(name, component) for name in known):
        return ""
    hint = f"it must be the full name, such as {', '.join(map(repr, known))}" if known else "no report has one"
    return f"component={component}: no stored report has this component; {hint}"


def _printable(text: str) -> Text:
    """A text of one or more lines, safe for the terminal, without rich markup."""
    return Text(printable(text, keep="\n"))


def _link(issue_id: str, url: str) -> Text:
    """An id as a link to the report's page."""
    address = web_url(url)
    return Text(printable(issue_id), Style(link=address) if address else "")


def _describe(match: Match) -> Text:
    """The oldest report of the group, the other members, and the most similar member."""
    master = match.master
    created = f", {master.created_at:%Y-%m-%d}" if master.created_at else ""
    facts = f"{created} {master.status} {master.resolution}".rstrip()
    parts = [_link(master.issue_id, master.url), _printable(f"{facts}\n{master.title}")]
    members = match.members[1:]  # the first one is the master
    if members:
        links = [_link(member, match.urls.get(member, "")) for member in members[:MAX_NAMED]]
        more = ", ..." if len(members) > MAX_NAMED else ""
        parts += [Text("\nwith "), Text(", ").join(links), Text(f"{more}; most similar ")]
        parts += [_link(match.best.issue_id, match.best.url), _printable(f": {match.best.title}")]
    return Text().join(parts)


def _nothing_likely(report: Report, target: TargetResult, marked: str) -> str:
    """The meaning of low probabilities, which depends on the model and on the length of the report."""
    if target.status == NOT_MEASURED:
        return "Ordered by all features of the reports, including the similarity of their texts."
    if report.description.strip():
        return f"Nothing{' else' * bool(marked)} is likely to be a duplicate: every probability is below {LIKELY:.0%}."
    return f"Every probability is below {LIKELY:.0%}, but a title alone says little: add a description."


def _explain(match: Match) -> str:
    """Reasons, shared words, equal fields, and the most similar sentence other than the title."""
    explanation = match.explanation
    lines = [f"because: {', '.join(explanation.reasons)}"] if explanation.reasons else []
    if explanation.terms:
        lines.append(f"shared words: {', '.join(explanation.terms)}")
    if explanation.fields:
        lines.append("same " + ", ".join(f"{name} {value}" for name, value in explanation.fields.items()))
    quotes = [stored for _, stored, _ in explanation.sentences if stored != match.best.title]
    if quotes:
        lines.append(f'"{cut_cells(quotes[0], 160)}"')
    return "\n".join(lines) or NOTHING_SHARED


def _parse_report(value: Any) -> Report:
    """A report from an object with its fields, or from an issue in its tracker's format."""
    if isinstance(value, dict) and not value.keys() <= set(FIELD_NAMES) and recognise(value):
        return report_of_issue(value)
    return report_from_json(value)


def _read_lines(lines: Iterable[str], source: str) -> Iterator[Report]:
    is_empty = True
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                parsed = json.loads(line)
                reports = [_parse_report(value) for value in (parsed if isinstance(parsed, list) else [parsed])]
            except (ValueError, RecursionError) as error:  # json.JSONDecodeError is a ValueError
                raise ValueError(f"{source}, line {number}: {error}") from error
            is_empty &= not reports
            yield from reports
    if is_empty:
        raise ValueError(f"{source} is empty: {EXPECTED}")
