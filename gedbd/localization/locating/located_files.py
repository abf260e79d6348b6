"""Files that a report may concern, with reasons, matching places and the last commits of these places."""

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
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
from gedbd.localization.locating.places import FileMatch, FramePlace, MatchedPlace, PlaceCommit, find_places, frames_in
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


def last_commits(
    git: Git,
    commit: str,
    places: Sequence[MatchedPlace],
    max_commits: int = MAX_COMMITS,
    seconds: float | None = MAX_SECONDS,
) -> list[tuple[PlaceCommit, ...]]:
    """The commits that last changed each place, newest first, at most ``max_commits``.

    Changes of white space, moves within a file, and the comment before a function are ignored. The places are in
    order of importance: after ``seconds`` (None for no limit), later places may have fewer commits or none, and a
    commit fewer lines. Raises ValueError if there is no such file or line, or an object is damaged.
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
class LocatedFile:
    """A file that a report may concern."""

    path: str
    rank: int  # from 1
    score: float  # comparable among the files of one report only
    probability: float  # softmax of the scores of all candidates
    explanation: tuple[str, ...]  # reasons for the rank
    contributions: dict[str, float]  # contribution of each feature to the score, by name
    # places that match best, best first; only for the first ``MAX_PLACED_FILES`` files
    places: tuple[MatchedPlace, ...]


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
    reasons = _reasons(ranked, paths, matches, frames_in(frames, paths), words.generic)
    return tuple(
        LocatedFile(
            path=path,
            rank=number + 1,
            score=file.score,
            probability=file.probability,
            explanation=explanation,
            contributions=dict(file.contributions),
            places=tuple(replace(place, commits=commits[place]) for place in matches[path].places),
        )
        for number, (file, path, explanation) in enumerate(zip(ranked.files, paths, reasons, strict=True))
    )


def _reasons(
    ranked: RankedFiles,
    paths: Sequence[str],
    matches: Mapping[str, FileMatch],
    frames: Mapping[str, Sequence[FramePlace]],
    generic: Set[str],
) -> Iterator[tuple[str, ...]]:
    """Reasons for the rank of each file.

    A reason is given if it is true and its features contribute to the score. Without a reason,
    the number of commits that changed the file is the reason.
    """
    history = ranked.history
    before = history.num_before(ranked.query.created_at)
    days = days_before(history, ranked.query, before)
    is_fix, num_files = (history.table.numbers[:, NUMBERS.index(name)] for name in ("is_fix", "num_files"))
    table = history.table
    changers = [table.row_commit[table.rows_of_path[file.row]] for file in ranked.files]
    all_commits = [np.unique(commits[commits < before]) for commits in changers]
    small = [own[num_files[own] <= MAX_COMMIT_FILES] for own in all_commits]
    text = f"{ranked.query.title}\n{ranked.query.description}"
    for number, (file, path, commits) in enumerate(zip(ranked.files, paths, all_commits, strict=True)):
        shares = file.contributions
        terms = [term for term in matches[path].terms if term not in generic][:MAX_NAMED]
        similar = int(ranked.num_similar[file.row]) if file.row < len(ranked.num_similar) else 0
        last_fix = min(days[commits[is_fix[commits] > 0]], default=np.inf)
        reasons = {
            NAMING: "named in the report" if is_named(path, text) else "",
            TRACES: f"in a stack trace (frame {frames[path][0].number:,})" if frames[path] else "",
            WORDS: f"words: {', '.join(terms)}" if terms else "",
            FIXES: f"fixes of similar reports changed it ({similar} of {MAX_SIMILAR})" if similar else "",
            TOGETHER: _together(number, paths, small) if shares.get("changed_together", 0.0) > 0 else "",
            FIXED: f"recently fixed ({_counted(int(last_fix), 'day')} before)" if last_fix < RECENT_DAYS + 1 else "",
        }
        told = (reason for names, reason in reasons.items() if sum(shares.get(name, 0.0) for name in names) > 0)
        yield tuple(filter(None, told)) or (f"changed by {_counted(len(commits), 'commit')}",)


def _together(number: int, paths: Sequence[str], commits: Sequence[np.ndarray]) -> str:
    """The higher ranked file that changed together with a file in most of its small commits."""
    own = commits[number]
    counts = [len(np.intersect1d(own, other, assume_unique=True)) for other in commits[:number]]
    highest = max(counts, default=0)
    if highest < max(MIN_TOGETHER, MIN_TOGETHER_SHARE * len(own)):
        return ""
    path = paths[counts.index(highest)]
    name = PurePosixPath(path).name
    if sum(PurePosixPath(other).name == name for other in paths) > 1:
        name = path
    return f"often changed with {name} (in {highest:,} of {len(own):,} commits)"


def is_named(path: str, text: str) -> bool:
    """Whether a text names a file: ``CSVParser.java``, ``CSVParser`` or ``Lexer``, but not ``git`` for ``git.py``."""
    name = PurePosixPath(path)
    looks_like_code = CODE_LIKE.search(name.stem) is not None or name.stem[:1].isupper()
    mention = name.stem if looks_like_code else name.name
    return re.search(rf"(?<![\w-]){re.escape(mention)}(?!\w)", text) is not None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
