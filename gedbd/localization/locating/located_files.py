"""Files that a report may concern, with reasons, matching places and the last commits of these."""

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import Suspect
from gedbd.localization.change_ranking.change_table import NUMBERS
from gedbd.localization.change_ranking.file_features import MAX_COMMIT_FILES, MAX_SIMILAR, days_before
from gedbd.localization.change_ranking.report_words import CODE_LIKE, find_frames
from gedbd.localization.locating.located_changes import MAX_NAMED, QueryWords
from gedbd.localization.locating.places import FileMatch, FramePlace, MatchedPlace, find_places, frames_in
from gedbd.localization.repository.commit_history import EPOCH
from gedbd.localization.repository.commit_history import MAX_SECONDS as MAX_SECONDS_OF_DATE
from gedbd.localization.repository.git_command import Git, MissingObjectError, decode
from gedbd.localization.repository.inducing import blame_runs, stored_name

MAX_COMMITS = 3
MAX_SECONDS = 0.4
MAX_PLACED_FILES = 3  # the first files, those with places
MIN_TOGETHER = 3  # commits
MIN_TOGETHER_SHARE = 0.2  # of the commits of a file
RECENT_DAYS = 90
# The features of each reason: it is given if their contributions sum to more than 0.
NAMING = ("name", "name_title", "qualified", "path", "path_title")
TRACES = ("stack_first", "stack_count")
WORDS = (
    *("changes", "changes_title", "changes_code", "changes_added", "best_change", "messages"),
    *("content", "content_title", "content_code"),
)
FIXES = ("earlier_fixes",)
TOGETHER = ("changed_together",)
FIXED = ("num_fixes",)


@dataclass(frozen=True)
class PlaceCommit:
    """A commit that last changed ``num_lines`` lines of a place; its title is the first line of the message."""

    id: str
    created_at: datetime
    title: str
    num_lines: int


def last_commits(
    git: Git,
    commit: str,
    places: Sequence[MatchedPlace],
    max_commits: int = MAX_COMMITS,
    seconds: float | None = MAX_SECONDS,
) -> list[tuple[PlaceCommit, ...]]:
    """The commits that last changed each place, newest first, at most ``max_commits``.

    Changes of white space, moves within a file, and the comment before a function are ignored. The places are the most
    important first: after ``seconds``, unless None, a place may have fewer commits or none, and the last commit fewer
    lines.

    Raises:
        ValueError: There is no such file or line, or an object is damaged.
    """
    by_path: dict[str, list[int]] = defaultdict(list)
    for number, place in enumerate(places):
        by_path[place.path].append(number)
    end = None if seconds is None else time.monotonic() + seconds
    with ThreadPoolExecutor(min(len(by_path), os.cpu_count() or 1) or 1) as threads:
        commits = threads.map(
            lambda numbers: _blame(git, commit, [places[number] for number in numbers], max_commits, end),
            by_path.values(),
        )
        by_number = dict(zip(chain.from_iterable(by_path.values()), chain.from_iterable(commits), strict=True))
    return [by_number[number] for number in range(len(places))]


def _blame(
    git: Git, commit: str, places: Sequence[MatchedPlace], max_commits: int, end: float | None
) -> list[tuple[PlaceCommit, ...]]:
    """The commits of places of one file, newest first; Git is stopped as soon as each place has its commits."""
    seconds = None if end is None else end - time.monotonic()
    if seconds is not None and seconds <= 0:
        return [()] * len(places)
    ranges = [(place.header or place.start, place.end) for place in places]
    counts: list[Counter[str]] = [Counter() for _ in places]
    facts: dict[str, dict[bytes, bytes]] = {}
    try:
        with closing(blame_runs(git, commit, stored_name(git, commit, places[0].path), ranges, seconds)) as runs:
            for run in runs:
                if run.commit_id not in facts and all(
                    len(count) >= max_commits or count.total() > last - first
                    for count, (first, last) in zip(counts, ranges, strict=True)
                ):
                    break
                facts[run.commit_id] = run.facts
                for count, (first, last) in zip(counts, ranges, strict=True):
                    num_lines = min(run.line + run.num_lines - 1, last) - max(run.line, first) + 1
                    if num_lines > 0:
                        count[run.commit_id] += num_lines
    except MissingObjectError:
        return [()] * len(places)  # older versions of the file are missing from a partial clone
    return [_newest(count, facts, max_commits) for count in counts]


def _newest(
    counts: Mapping[str, int], facts: Mapping[str, Mapping[bytes, bytes]], max_commits: int
) -> tuple[PlaceCommit, ...]:
    """The newest commits of a place."""
    commits = []
    for id_, num_lines in counts.items():
        seconds = min(int(facts[id_][b"committer-time"]), MAX_SECONDS_OF_DATE)
        summary, _ = decode(facts[id_][b"summary"])
        commits.append(PlaceCommit(id_, EPOCH + timedelta(seconds=seconds), summary, num_lines))
    return tuple(sorted(commits, key=lambda commit: commit.created_at, reverse=True)[:max_commits])


@dataclass(frozen=True)
class LocatedPlace(MatchedPlace):
    """A place of a file with its last commits."""

    commits: tuple[PlaceCommit, ...]  # commits that last changed it, newest first; none if Git took too long


@dataclass(frozen=True)
class LocatedFile:
    """A file that a report may concern."""

    path: str
    rank: int  # from 1
    score: float  # comparable among the files of one report only
    probability: float  # softmax of the scores of all candidates
    explanation: tuple[str, ...]  # reasons for the rank
    contributions: dict[str, float]  # contribution of each feature to the score, by name
    # places that match best, best first; only for the first ``MAX_PLACED_FILES`` files
    places: tuple[LocatedPlace, ...]


class RankedFiles(NamedTuple):
    """Files ranked for a report, best first, and the inputs of their ranking."""

    history: ChangeHistory
    query: ChangeQuery
    num_similar: np.ndarray  # see ``KnownFixes.num_similar``
    files: Sequence[Suspect]


def commit_before(git: Git, commit: str, history: ChangeHistory, query: ChangeQuery) -> str:
    """The commit whose files are ranked for a report; empty if none is older than the report.

    The last commit of the history if the report is newer; otherwise the newest first parent before the report, the
    state of the branch at that time: the newest commit of the history may have been on another branch. Raises
    ValueError if a commit is missing or damaged.
    """
    before = history.num_before(query.created_at)
    if before == len(history) or query.created_at is None:
        return commit
    if not before:
        return ""
    last_second = int(np.ceil(query.created_at.timestamp())) - 1  # inclusive, in whole seconds
    newest = git.run("rev-list", "-1", "--first-parent", f"--min-age={last_second}", commit)
    # The history corrects implausible dates; Git may then find no commit.
    return newest.decode("ascii").strip() or history.ids[before - 1]


def read_files(
    git: Git, commit: str, ranked: RankedFiles, words: QueryWords, max_places: int
) -> tuple[LocatedFile, ...]:
    """Reads the files of a commit and matches them, at most ``max_places`` places each, with the report.

    Raises ValueError if the commit is no longer in the repository, or an object is damaged.
    """
    paths = [ranked.history.table.paths[file.row] for file in ranked.files]
    frames = find_frames(f"{ranked.query.title}\n{ranked.query.description}")
    matches = find_places(git, commit, paths, words.weights, max_places, frames, MAX_PLACED_FILES)
    places = [place for match in matches.values() for place in match.places]
    commits = dict(zip(places, last_commits(git, commit, places), strict=True))
    reasons = _Reasons(ranked, paths, matches, frames_in(frames, paths), words.generic)
    return tuple(
        LocatedFile(
            path=path,
            rank=number + 1,
            score=file.score,
            probability=file.probability,
            explanation=reasons(number),
            contributions=dict(file.contributions),
            places=tuple(LocatedPlace(**vars(place), commits=commits[place]) for place in matches[path].places),
        )
        for number, (file, path) in enumerate(zip(ranked.files, paths, strict=True))
    )


class _Reasons:
    """Reasons for the ranks of files.

    A reason is given if it is true and its features contribute to the score. Without any, the reason is the number of
    commits that changed the file.
    """

    def __init__(
        self,
        ranked: RankedFiles,
        paths: Sequence[str],
        matches: Mapping[str, FileMatch],
        frames: Mapping[str, Sequence[FramePlace]],
        generic: Set[str],
    ) -> None:
        history = ranked.history
        before = history.num_before(ranked.query.created_at)
        self._ranked = ranked
        self._paths = paths
        self._matches = matches
        self._frames = frames
        self._generic = generic
        self._numbers = history.table.numbers
        self._days = days_before(history, ranked.query, before)
        index = history.index
        changers = [index.table.row_commit[index.rows_of_path[file.row]] for file in ranked.files]
        self._commits = [np.unique(commits[commits < before]) for commits in changers]

    def __call__(self, number: int) -> tuple[str, ...]:
        """The reasons for a file, by its position from 0."""
        reasons = (
            (NAMING, self._naming),
            (TRACES, self._traces),
            (WORDS, self._words),
            (FIXES, self._similar_fixes),
            (TOGETHER, self._together),
            (FIXED, self._fixed),
        )
        shares = self._ranked.files[number].contributions
        positive = [reason for names, reason in reasons if sum(shares.get(name, 0.0) for name in names) > 0]
        explanation = tuple(text for text in (reason(number) for reason in positive) if text)
        return explanation or (f"changed by {_counted(len(self._commits[number]), 'commit')}",)

    def _naming(self, number: int) -> str:
        query = self._ranked.query
        named = is_named(self._paths[number], f"{query.title}\n{query.description}")
        return "named in the report" if named else ""

    def _traces(self, number: int) -> str:
        frames = self._frames[self._paths[number]]
        return f"in a stack trace (frame {frames[0].number:,})" if frames else ""

    def _words(self, number: int) -> str:
        terms = [term for term in self._matches[self._paths[number]].terms if term not in self._generic]
        return f"words: {', '.join(terms[:MAX_NAMED])}" if terms else ""

    def _similar_fixes(self, number: int) -> str:
        path = self._ranked.files[number].row
        num_similar = self._ranked.num_similar
        count = int(num_similar[path]) if path < len(num_similar) else 0
        return f"fixes of similar reports changed it ({count} of {MAX_SIMILAR})" if count else ""

    def _together(self, number: int) -> str:
        """The higher ranked file changed together with it in most commits, large commits ignored."""
        num_files = self._numbers[:, NUMBERS.index("num_files")]
        commits = self._commits[number]
        commits = commits[num_files[commits] <= MAX_COMMIT_FILES]
        counts = [len(np.intersect1d(commits, other, assume_unique=True)) for other in self._commits[:number]]
        highest = max(counts, default=0)
        if highest < max(MIN_TOGETHER, MIN_TOGETHER_SHARE * len(commits)):
            return ""
        path = self._paths[counts.index(highest)]
        name = PurePosixPath(path).name
        if sum(PurePosixPath(other).name == name for other in self._paths) > 1:
            name = path
        return f"often changed with {name} (in {highest:,} of {len(commits):,} commits)"

    def _fixed(self, number: int) -> str:
        commits = self._commits[number]
        days = self._days[commits[self._numbers[commits, NUMBERS.index("is_fix")] > 0]]
        last = int(days.min(initial=np.inf)) if len(days) else RECENT_DAYS + 1
        return f"recently fixed ({_counted(last, 'day')} before)" if last <= RECENT_DAYS else ""


def is_named(path: str, text: str) -> bool:
    """Whether a report names a file: ``CSVParser.java``, ``CSVParser`` or ``Lexer``, but not ``git`` for ``git.py``."""
    name = PurePosixPath(path)
    looks_like_code = CODE_LIKE.search(name.stem) is not None or name.stem[:1].isupper()
    mention = name.stem if looks_like_code else name.name
    return re.search(rf"(?<![\w-]){re.escape(mention)}(?!\w)", text) is not None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
