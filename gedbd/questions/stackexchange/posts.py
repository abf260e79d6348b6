"""Reads ``Posts.xml``, and streams the XML files of a dump."""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

import pandas as pd

from gedbd.corpora.dates import check_ids, parse_dates
from gedbd.corpora.fields import SEPARATOR
from gedbd.corpora.readers.csv_file import open_packed
from gedbd.corpora.readers.jira_xml import is_cut_off, safe_parser
from gedbd.io.console import item_progress
from gedbd.io.unpacking import UnpackLimit

CHUNK_BYTES = 1 << 20
MAX_ROW_BYTES = 1 << 24  # a body has at most 30,000 characters of Markdown
PACKED = (".xz", ".gz")
FETCH_AGAIN = "fetch the dump again"

Attributes = Mapping[str, str]
CODE_START = re.compile(r"<pre\b[^<>]*>", re.IGNORECASE)
CODE_END = re.compile(r"</pre\s*>", re.IGNORECASE)
BLOCK = re.compile(
    r"</?(?:p|div|br|hr|[uod]l|li|d[td]|h[1-6]|blockquote|pre|table|t(?:head|body|r|d|h))(?:[\s/][^<>]*)?>",
    re.IGNORECASE,
)
TAG = re.compile(r"<[a-zA-Z/!][^<>]*>")
MARK = r"\s?(?:<strong>)?\s?possible\sduplicates?(?:\sof)?\s?:?\s?(?:</strong>)?\s?:?\s?(?:<br\s?/?>)?"
# A quote with the link, which the site prepended to a body until 2013.
QUOTED = re.compile(rf"<blockquote>\s?(?:<p>)?{MARK}", re.IGNORECASE)
QUOTE_END = "</blockquote>"
# A paragraph with only the notice and links.
LINK = r"<a\s[^<>]*>[^<>]*(?:</?(?:b|code|em|i|strong|su[bp])>[^<>]*)*</a>"
PARAGRAPH = re.compile(rf"<p>{MARK}\s?(?:{LINK}(?:[\s,;.]|<br\s?/?>)*)+</p>", re.IGNORECASE)
QUESTION = "1"
ANSWER = "2"
TEXTS = ("id", "title", "description", "code", "created_at", "labels", "closed_at")
TAG_NAME = re.compile(r"[^<>|;\s]+")  # of "<data-structures><c++>", or of "|data-structures|c++|" since 2023
FIELDS = {"Body": "descriptions are empty", "Tags": "they have no labels", "CreationDate": "they are ordered by id"}


def read_rows(path: Path, root: str, limit: UnpackLimit) -> Generator[Attributes]:
    """Yields the attributes of each row, with a progress bar.

    Args:
        path: The file, plain or compressed as ``.xz`` or ``.gz``.
        root: The root element: ``posts``, ``postlinks``, ``tags`` or ``posthistory``.
        limit: Limits the unpacked bytes.

    Raises:
        ValueError: The file has another structure, is cut off, damaged or too large.
    """
    rows = _Rows(path, root)
    # The unpacked size of a compressed file is unknown.
    total = None if path.suffix.lower() in PACKED else path.stat().st_size / 1e6
    with item_progress("MB") as progress, open_packed(path, path.suffix, limit=limit) as stream:
        task = progress.add_task(path.name, total=total)
        for chunk in iter(partial(stream.read, CHUNK_BYTES), b""):
            yield from rows.of_chunk(chunk)
            progress.advance(task, len(chunk) / 1e6)
        rows.check_end()


class _Rows:
    """Parses a file in chunks."""

    def __init__(self, path: Path, root: str) -> None:
        self._path = path
        self._root = root
        self._depth = 0
        self._count = 0
        self._bytes_since_row = 0
        self._new_rows: list[Attributes] = []
        self._parser = safe_parser(path)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def of_chunk(self, chunk: bytes) -> list[Attributes]:
        """The rows that start in a chunk."""
        self._new_rows = []
        self._parse(chunk, is_last=False)
        self._count += len(self._new_rows)
        self._bytes_since_row = len(chunk) if self._new_rows else self._bytes_since_row + len(chunk)
        # The parser reads an unfinished tag again with each chunk.
        if self._bytes_since_row > MAX_ROW_BYTES:
            raise ValueError(
                f"{self._path}, row {self._count + 1}: more than {MAX_ROW_BYTES:,} bytes, the maximum of a post"
            )
        return self._new_rows

    def check_end(self) -> None:
        """Raises ValueError if the file is cut off."""
        self._new_rows = []  # rows of the last chunk are counted already
        self._parse(b"", is_last=True)

    def _parse(self, chunk: bytes, is_last: bool) -> None:
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            position = f"{self._path}, line {error.lineno}, column {error.offset + 1}"
            message = f"{position}: not readable as XML ({expat.errors.messages[error.code]})"
            if is_cut_off(error):
                row = self._count + len(self._new_rows)
                message = f"{self._path}: the file ends after {row:,} rows, without </{self._root}>"
            raise ValueError(f"{message}; {FETCH_AGAIN}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 2 and name == "row":
            self._new_rows.append(attributes)
        elif self._depth > 1 or name != self._root:
            expected = self._root if self._depth == 1 else "row"
            position = f"{self._path}, line {self._parser.CurrentLineNumber}"
            problem = f"unexpected <{name[:40]}>, expected <{expected}>; this is not the {self._root} file of a dump"
            raise ValueError(f"{position}: {problem}")

    def _end(self, name: str) -> None:
        self._depth -= 1


@dataclass(frozen=True)
class Posts:
    """The questions of a site."""

    # texts ``id``, ``title``, ``description`` and ``code`` (see ``BodyText``), ``created_at``, ``labels`` (tags
    # separated by ``;``) and ``closed_at``; ``answered`` (bool) and ``answered_at`` (of the first answer, UTC, ``NaT``
    # if unknown). Indexed by row of the file, counted from 1
    questions: pd.DataFrame
    fields: frozenset[str]  # which of ``FIELDS`` any question has
    warnings: tuple[str, ...]  # dropped and missing content, with counts


@dataclass
class _Collected:
    """Content of the rows read so far."""

    # a list for each of ``TEXTS``
    texts: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in TEXTS})
    rows: list[int] = field(default_factory=list)  # row of each question
    # whether each question has an answer by AnswerCount or AcceptedAnswerId
    counted: list[bool] = field(default_factory=list)
    num_answers: Counter[str] = field(default_factory=Counter)  # number of answer rows by id of the question
    first_answers: dict[str, str] = field(default_factory=dict)  # date of the first answer by id of the question
    # counts for warnings, and of questions with each of ``FIELDS``
    counts: Counter[str] = field(default_factory=Counter)


def read_posts(rows: Iterable[Attributes], path: Path, code_blocks: bool = False) -> Posts:
    """Collects the rows of ``Posts.xml``.

    Raises:
        ValueError: There is no question, or an id is missing or repeated.
    """
    collected = _Collected()
    for number, attributes in enumerate(rows, start=1):
        kind = attributes.get("PostTypeId")
        if kind == QUESTION:
            _add_question(collected, number, attributes, code_blocks)
        elif kind == ANSWER:
            parent = attributes.get("ParentId", "")
            dates = filter(None, (collected.first_answers.get(parent), attributes.get("CreationDate")))
            collected.num_answers[parent] += 1
            collected.first_answers[parent] = min(dates, default="")  # dates of one format sort as text
        else:
            collected.counts["others"] += 1
    if not collected.rows:
        num_others = collected.counts["others"] + collected.num_answers.total()
        raise ValueError(f"{path}: no question, which is a row with PostTypeId 1, among its {num_others:,} rows")
    fields = frozenset(name for name in FIELDS if collected.counts[name])
    questions = pd.DataFrame(collected.texts, index=collected.rows, dtype=str)
    check_ids(questions["id"], str(path), "Id")
    collected.texts.clear()  # frees gigabytes, which the table has copied
    answers, answer_warnings = _answers(questions["id"], collected)
    warnings = (*_post_warnings(collected, fields), *answer_warnings)
    return Posts(questions.assign(**answers), fields, warnings)


def _add_question(collected: _Collected, number: int, attributes: Attributes, code_blocks: bool) -> None:
    text, code, had_mark = body_text(attributes.get("Body", ""), code_blocks)
    values = (
        attributes.get("Id", "").strip(),
        attributes.get("Title", ""),
        text,
        code,
        attributes.get("CreationDate", ""),
        SEPARATOR.join(TAG_NAME.findall(attributes.get("Tags", ""))),
        attributes.get("ClosedDate", ""),
    )
    for name, value in zip(TEXTS, values, strict=True):
        collected.texts[name].append(value)
    collected.rows.append(number)
    collected.counted.append("AcceptedAnswerId" in attributes or attributes.get("AnswerCount", "0") != "0")
    collected.counts["marks"] += had_mark
    for name in FIELDS:
        collected.counts[name] += name in attributes


def _answers(ids: pd.Series, collected: _Collected) -> tuple[dict[str, pd.Series], list[str]]:
    """The columns ``answered`` and ``answered_at``, and warnings about them."""
    if not collected.num_answers:
        answered = pd.Series(collected.counted, index=ids.index)
        unknown = pd.Series(pd.NaT, index=ids.index, dtype="datetime64[us, UTC]")
        warning = (
            "no answers in the file: whether a question was answered by the day of the dump follows from AnswerCount "
            "and AcceptedAnswerId; when it was answered is unknown"
        )
        return {"answered": answered, "answered_at": unknown}, [warning]
    first = ids.map(collected.first_answers)
    answered_at, _ = parse_dates(first.fillna("").astype(str).str.strip())
    undated = int((first.notna() & answered_at.isna()).sum())
    orphans = collected.num_answers.total() - sum(collected.num_answers[id_] for id_ in ids)
    warnings = [f"answered questions without a readable date of an answer: {undated:,}"] if undated else []
    warnings += [f"answers to a question that is not in the file: {orphans:,}, left out"] if orphans else []
    return {"answered": first.notna(), "answered_at": answered_at}, warnings


def _post_warnings(collected: _Collected, fields: frozenset[str]) -> list[str]:
    warnings = []
    if num_others := collected.counts["others"]:
        warnings.append(f"posts that are neither questions nor answers: {num_others:,}, left out")
    if marks := collected.counts["marks"]:
        warnings.append(f'bodies with a "Possible Duplicate" notice that names the original: {marks:,}, notice removed')
    warnings += [f"no question has {name}: {FIELDS[name]}" for name in FIELDS if name not in fields]
    untagged = len(collected.rows) - collected.counts["Tags"]
    if "Tags" in fields and untagged:
        warnings.append(f"questions without Tags: {untagged:,}, kept")
    return warnings


class BodyText(NamedTuple):
    """The text of a body."""

    text: str  # a line for each paragraph, list item or other block, with inline code, and optionally code blocks
    code: str  # the code blocks
    had_mark: bool  # whether a notice "Possible Duplicate" was removed


def body_text(html: str, code_blocks: bool = False) -> BodyText:
    """Converts the HTML of a body to text and code.

    Args:
        html: The body.
        code_blocks: Whether the text includes code blocks, each as a line.
    """
    code: list[str] = []
    if "<pre" in html or "<PRE" in html:
        prose, code = split_code(html)
        html = html if code_blocks else prose
    had_mark = False
    if "ossible" in html or "OSSIBLE" in html:  # a fast check before the patterns
        html, had_mark = without_mark(html)
    return BodyText(plain_text(html), "\n".join(code), had_mark)


def split_code(html: str) -> tuple[str, list[str]]:
    """Replaces each code block by a line break, and returns the text of the blocks.

    An unclosed block extends to the end of the body.
    """
    prose: list[str] = []
    code: list[str] = []
    position = 0
    while start := CODE_START.search(html, position):
        end = CODE_END.search(html, start.end())
        code_end = end.start() if end else len(html)
        prose.append(html[position : start.start()])
        code.append(unescape(TAG.sub("", html[start.end() : code_end])).strip("\r\n"))
        position = end.end() if end else len(html)
    return "<br>".join([*prose, html[position:]]), code


def without_mark(html: str) -> tuple[str, bool]:
    """Removes the notices "Possible Duplicate: <link>", and returns whether there were any."""
    original = " ".join(html.split())
    html = PARAGRAPH.sub("", original)
    parts: list[str] = []
    position = 0
    while mark := QUOTED.search(html, position):
        end = html.find(QUOTE_END, mark.end())
        if end < 0:
            break
        stop = end + len(QUOTE_END)
        # A quote without a link is text of the author.
        kept_to = mark.start() if "href=" in html[mark.start() : end] else stop
        parts.append(html[position:kept_to])
        position = stop
    html = "".join([*parts, html[position:]])
    return html, html != original


def plain_text(html: str) -> str:
    """Converts HTML to text, with a line for each nonempty block."""
    # A line break in HTML is a blank.
    text = TAG.sub("", BLOCK.sub("\n", html.replace("\n", " ")))
    if "&" in text:
        text = unescape(text).replace("\xa0", " ")
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join([line for line in lines if line])
