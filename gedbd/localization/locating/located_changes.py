"""Suspect commits with message, matching hunks and reasons."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import fsum
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import Suspect
from gedbd.localization.repository.commit_history import DatedCommit, read_commits
from gedbd.localization.repository.commits import Commit, FileChange, Hunk, Limits
from gedbd.localization.repository.git_command import Git
from gedbd.text.words import CJK_RUN, MAX_WORD_CHARS, PART, RUN_OR_WORD, WORD, normalise, pairs_of, stop_words

MIN_LENGTH = 3
MAX_CACHED_NAMES = 100_000  # identifiers: most lines of a file repeat those of others
CONTEXT_WEIGHT = 0.5  # of a word in unchanged lines only
MAX_LINES = 5
MAX_TERMS = 8
MAX_NAMED = 4  # words or files that a reason names
MAX_FAMILIES = 3
GENERIC_SHARE = 0.1  # of commits or files; a word in at least this share is generic
MIN_GENERIC = 5  # commits or files: in a young project, one commit may be a tenth of all
MIN_SHARE = 0.1  # of all positive contributions; a family of features with at least this share is a reason
# Families of features by the beginnings of their names; the first match counts. The words only name the family: a
# ranker may also prefer a commit for a low value, such as no earlier bugs.
FAMILIES = (
    ("lines", "its lines in files that the report may be about"),
    ("touches", "the files that it changes"),
    ("newest", "how recent it is among the changes of these files"),
    ("oldest", "how recent it is among the changes of these files"),
    ("diff", "the words of its changed lines"),
    ("added_lines", "its size"),
    ("added", "the words of its changed lines"),
    ("best_file", "the words of its changed lines"),
    ("message", "the words of its message"),
    ("age_days", "its age"),
    ("num_files", "its size"),
    ("removed_lines", "its size"),
    ("is_cut", "its size"),
    ("test_share", "the kinds of its files"),
    ("is_fix", "whether it is a fix"),
)


@dataclass(frozen=True)
class MatchedLine:
    """A line of a hunk."""

    sign: str  # ``+``, ``-`` or a blank
    number: int  # line number in the file after the change; for a removed line, before the change
    text: str
    spans: tuple[tuple[int, int], ...]  # positions of the words of the report, as (start, end)


@dataclass(frozen=True)
class MatchedHunk:
    """A hunk that shares words with a report."""

    path: str
    old_start: int  # the first four numbers are those of ``Hunk``
    old_count: int  # number of lines before the change
    new_start: int  # first line after the change
    new_count: int  # number of lines after the change
    section: str  # the class or function around it
    score: float  # sum of the weights of the shared words; half for words in unchanged lines only
    terms: tuple[str, ...]  # the shared words, largest weight first
    lines: tuple[MatchedLine, ...]  # the lines that match best, in order


def match_hunks(commit: Commit, weights: Mapping[str, float], max_hunks: int) -> tuple[MatchedHunk, ...]:
    """The hunks of a commit that match a report, best first; ``weights`` are those of its lower-case words."""
    matches = (_match(change, hunk, weights) for change in commit.files for hunk in change.hunks)
    return tuple(sorted(filter(None, matches), key=lambda hunk: -hunk.score)[:max_hunks])


class WordSpan(NamedTuple):
    """A word in lower case with its start and end in the text."""

    word: str
    start: int
    end: int


def _match(change: FileChange, hunk: Hunk, weights: Mapping[str, float]) -> MatchedHunk | None:
    """The hunk with its lines that match best; None without a shared word."""
    changed: set[str] = set()
    unchanged: set[str] = set()
    lines: list[tuple[float, MatchedLine]] = []
    old = hunk.old_start
    new = hunk.new_start
    for line in hunk.lines:
        sign = line[:1]
        text = line[1:].removesuffix("\r")
        shared = list(word_spans(text, weights))
        terms = {word.word for word in shared}
        (unchanged if sign == " " else changed).update(terms)
        if shared:
            # fsum is exact: the order of a set differs between processes.
            value = fsum(weights[term] for term in terms) * (CONTEXT_WEIGHT if sign == " " else 1.0)
            spans = joined_spans([(word.start, word.end) for word in shared])
            lines.append((value, MatchedLine(sign, old if sign == "-" else new, text, spans)))
        old += sign != "+"
        new += sign != "-"
    if not lines:
        return None
    score = fsum(weights[term] for term in changed)
    score += CONTEXT_WEIGHT * fsum(weights[term] for term in unchanged - changed)
    best = sorted(range(len(lines)), key=lambda number: -lines[number][0])[:MAX_LINES]
    terms_in_order = sorted(changed | unchanged, key=lambda term: (-weights[term], term))[:MAX_TERMS]
    return MatchedHunk(
        change.path,
        *hunk[:-1],
        score=score,
        terms=tuple(terms_in_order),
        lines=tuple(lines[number][1] for number in sorted(best)),
    )


def joined_spans(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorts spans and merges overlapping ones: (0, 9), (0, 3), (12, 15) become (0, 9), (12, 15)."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def word_spans(text: str, among: Container[str] | None = None) -> Iterator[WordSpan]:
    """The words of three or more characters that ``gedbd.text.words`` finds, with their positions.

    ``new HTTPServer`` gives ``new``, ``httpserver``, ``http`` and ``server``. ``among`` are the words to find; None for
    all.
    """
    for match in WORD.finditer(text):
        for word in _identifier_words(match[0]):
            if among is None or word.word in among:
                yield _moved(word, match.start())


def _moved(word: WordSpan, offset: int) -> WordSpan:
    return WordSpan(word.word, word.start + offset, word.end + offset)


@lru_cache(maxsize=MAX_CACHED_NAMES)
def _identifier_words(identifier: str) -> list[WordSpan]:
    """The words of an identifier: itself, then its parts."""
    if CJK_RUN.search(identifier):
        return [
            _moved(word, piece.start())
            for piece in RUN_OR_WORD.finditer(identifier)
            for word in (_run_words(piece[0]) if piece[1] else _identifier_words(piece[0]))
        ]
    if len(identifier) > MAX_WORD_CHARS:
        return []
    spans = [(0, len(identifier))]
    if identifier.isascii():
        parts = [part.span() for part in PART.finditer(identifier)]
        spans = parts if len(parts) < 2 else [*spans, *parts]
    words = [WordSpan(normalise(identifier[start:end]), start, end) for start, end in spans]
    return [word for word in words if word.end - word.start >= MIN_LENGTH and word.word not in stop_words()]


def _run_words(run: str) -> list[WordSpan]:
    return [WordSpan(pair, start, start + len(pair)) for start, pair in enumerate(pairs_of(run))]


@dataclass(frozen=True)
class LocatedChange:
    """A commit that may have introduced the bug of a report."""

    id: str
    rank: int  # from 1
    score: float  # comparable among the commits of one report only
    created_at: datetime  # date, UTC
    message: str  # the whole message
    num_files: int  # number of changed files that were read
    explanation: tuple[str, ...]  # reasons for the rank
    contributions: dict[str, float]  # contribution of each feature to the score, by name
    hunks: tuple[MatchedHunk, ...]  # hunks that match the report, best first

    @property
    def title(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0].strip()


class QueryWords(NamedTuple):
    """The words of a report that earlier commits contain."""

    weights: dict[str, float]  # words, lower case, with the weight log(1 + N / n) for n of N commits
    # words in at least a tenth of the commits, or of their changed files; no reason names them
    generic: frozenset[str] = frozenset()


def read_changes(
    git: Git,
    history: ChangeHistory,
    query: ChangeQuery,
    suspects: Sequence[Suspect],
    words: QueryWords,
    limits: Limits,
    max_hunks: int,
) -> tuple[LocatedChange, ...]:
    """Reads the suspects from the repository and matches them, at most ``max_hunks`` hunks each, with the report.

    Raises ValueError if a commit is no longer in the repository, or is damaged.
    """
    if not suspects:
        return ()
    ids = [history.ids[suspect.row] for suspect in suspects]
    first_parents = {}
    with git.stream("rev-list", "--no-walk=unsorted", "--parents", "--stdin", lines=ids) as lines:
        for line in lines:
            id_, *parents = line.decode("ascii").split()
            first_parents[id_] = parents[0] if parents else ""
    dated = []
    for id_, suspect in zip(ids, suspects, strict=True):
        date = pd.Timestamp(history.created_at[suspect.row]).to_pydatetime().replace(tzinfo=UTC)
        dated.append(DatedCommit(id_, first_parents[id_], date))
    located = []
    for rank, (suspect, read) in enumerate(zip(suspects, read_commits(git, dated, limits), strict=True), start=1):
        commit = read.commit
        located.append(
            LocatedChange(
                id=commit.id,
                rank=rank,
                score=suspect.score,
                created_at=commit.created_at,
                message=commit.message,
                num_files=len(commit.files),
                explanation=reasons(commit, query, words, suspect.contributions),
                contributions=dict(suspect.contributions),
                hunks=match_hunks(commit, words.weights, max_hunks),
            )
        )
    return tuple(located)


def query_words(history: ChangeHistory, query: ChangeQuery) -> QueryWords:
    """The words of a report that earlier commits have in message or diff."""
    identifiers = set(WORD.findall(f"{query.title}\n{query.description}"))  # a log repeats its words
    words = sorted({word.word for identifier in identifiers for word in word_spans(identifier)})
    num_before = history.num_before(query.created_at)
    numbers = np.array([text[0] for text in history.vocabulary([[word] for word in words], learn=False)], dtype="i4")
    frequencies = history.table.frequency(numbers, num_before)
    weights = {
        word: float(np.log1p(num_before / frequency))
        for word, frequency in zip(words, frequencies.tolist(), strict=True)
        if frequency > 0
    }
    num_files = history.table.num_paths(history.table.num_rows(num_before))
    in_commits = frequencies >= max(MIN_GENERIC, GENERIC_SHARE * num_before)
    in_files = history.table.file_frequency(numbers, num_before) >= max(MIN_GENERIC, GENERIC_SHARE * num_files)
    generic = (word for word, is_generic in zip(words, in_commits | in_files, strict=True) if is_generic)
    return QueryWords(weights, frozenset(generic))


def reasons(
    commit: Commit, query: ChangeQuery, words: QueryWords, contributions: Mapping[str, float]
) -> tuple[str, ...]:
    """The reasons for the rank of a commit, from the contribution of each feature to its score."""
    explanation = []
    names = _named_files(commit, query, words.weights)
    if names:
        explanation.append(f"changes {', '.join(names[:MAX_NAMED])}, named in the report")
    in_message = {word.word for word in word_spans(commit.message)} & (words.weights.keys() - words.generic)
    if in_message:
        rarest = sorted(in_message, key=lambda word: (-words.weights[word], word))
        explanation.append(f"the message mentions {', '.join(rarest[:MAX_NAMED])}")
    if query.created_at is not None:
        days = (query.created_at.to_pydatetime() - commit.created_at).days
        explanation.append(f"{days:,} days earlier")
    families = largest_families(contributions)
    return (*explanation, f"ranked by {', '.join(families)}") if families else tuple(explanation)


def largest_families(contributions: Mapping[str, float]) -> list[str]:
    """The families of features that contribute most to a score, largest first, with their contributions."""
    sums: dict[str, float] = defaultdict(float)
    for name, value in contributions.items():
        sums[family(name)] += value
    positive = {name: value for name, value in sums.items() if value > 0}
    total = sum(positive.values())
    largest = sorted(positive, key=lambda name: (-positive[name], name))[:MAX_FAMILIES]
    return [f"{name} ({positive[name]:+.2f})" for name in largest if positive[name] >= MIN_SHARE * total]


def family(name: str) -> str:
    """The description of a feature's family, or the feature's name if it has no family."""
    exact = dict(FAMILIES).get(name)
    return exact or next((description for start, description in FAMILIES if name.startswith(start)), name)


def _named_files(commit: Commit, query: ChangeQuery, weights: Mapping[str, float]) -> list[str]:
    """Names, without suffix, of the changed files that the report names, rarest first.

    ``git``, which may be a word of prose, only counts as ``git.py``; ``QuotedParser`` always does.
    """
    text = f"{query.title}\n{query.description}".lower()
    named = set()
    for change in commit.files:
        path = PurePosixPath(change.path)
        looks_like_code = path.stem != path.stem.lower() or "_" in path.stem
        if path.stem.lower() in weights and (looks_like_code or path.name.lower() in text):
            named.add(path.stem)
    return sorted(named, key=lambda stem: (-weights[stem.lower()], stem))
