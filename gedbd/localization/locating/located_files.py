"""Files that a report may be about, with what people need to judge them: reasons, places, the last commits of these."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import SuspectFile
from gedbd.localization.change_ranking.change_table import NUMBERS
from gedbd.localization.change_ranking.file_features import MAX_COMMIT_FILES, days_before
from gedbd.localization.change_ranking.known_fixes import MAX_SIMILAR
from gedbd.localization.change_ranking.report_words import CODE_LIKE
from gedbd.localization.locating.located import MAX_NAMED, QueryWords
from gedbd.localization.locating.place_commits import PlaceCommit, last_commits
from gedbd.localization.locating.places import FileMatch, FramePlace, MatchedPlace, find_places, frames_in
from gedbd.localization.repository.git_command import Git
from gedbd.text.stack_traces import find_frames

MAX_PLACED_FILES = 3  # the first files, whose places are shown
MIN_TOGETHER = 3  # commits
MIN_TOGETHER_SHARE = 0.2  # of the commits of a file
RECENT_DAYS = 90
# The features that a reason is about: it is given if they add to the score together.
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
class LocatedPlace(MatchedPlace):
    """A place of a file with its last commits.

    Attributes:
        commits: Those that last touched it, the newest first; none if Git took too long.
    """

    commits: tuple[PlaceCommit, ...]


@dataclass(frozen=True)
class LocatedFile:
    """A file that a report may be about.

    Attributes:
        path: The file.
        rank: Its place, from 1.
        score: Its score: only the order of the scores of one report says something.
        probability: The softmax of the scores of all candidates.
        explanation: Why it is there, one reason each.
        contributions: What the features add to the score, by name.
        places: Of the first ``MAX_PLACED_FILES`` files, the places that match best, the best first.
    """

    path: str
    rank: int
    score: float
    probability: float
    explanation: tuple[str, ...]
    contributions: dict[str, float]
    places: tuple[LocatedPlace, ...]


class RankedFiles(NamedTuple):
    """Files that were ranked for a report, and what they were ranked by.

    Attributes:
        history: The commits.
        query: The report.
        num_similar: See ``KnownFixes.num_similar``.
        found: The files, the first one first.
    """

    history: ChangeHistory
    query: ChangeQuery
    num_similar: np.ndarray
    found: Sequence[SuspectFile]


def commit_before(git: Git, commit: str, history: ChangeHistory, query: ChangeQuery) -> str:
    """The commit whose files a report is about; empty if none is older than the report.

    That is the last commit of the history if the report is younger than all. Otherwise it is the newest commit before
    the report that is reached over first parents, which is what the branch held then: the newest commit of the history
    may have been on another branch. Git takes as long as for counting the commits that came later.

    Args:
        git: The repository.
        commit: The id of the last commit.
        history: The commits that lead to it.
        query: The report.

    Raises:
        ValueError: A commit is missing or damaged.
    """
    before = history.num_before(query.created_at)
    if before == len(history) or query.created_at is None:
        return commit
    if not before:
        return ""
    last_second = int(np.ceil(query.created_at.timestamp())) - 1  # Git's dates have whole seconds, and this one counts
    told = git.run("rev-list", "-1", "--first-parent", f"--min-age={last_second}", commit)
    # Dates of the history are corrected where Git's make no sense: then Git may find none.
    return told.decode("ascii").strip() or history.ids[before - 1]


def read_files(
    git: Git, commit: str, ranked: RankedFiles, words: QueryWords, max_places: int
) -> tuple[LocatedFile, ...]:
    """Reads the files of a commit and finds what they share with the report.

    Args:
        git: The repository.
        commit: The id of the commit that has the files.
        ranked: The files.
        words: The words of the report.
        max_places: How many places of a file.

    Raises:
        ValueError: The commit is no longer in the repository, or an object is damaged.
    """
    paths = [ranked.history.table.paths[file.path] for file in ranked.found]
    frames = find_frames(f"{ranked.query.title}\n{ranked.query.description}")
    matches = find_places(git, commit, paths, words.weights, max_places, frames, MAX_PLACED_FILES)
    shown = [place for match in matches.values() for place in match.places]
    commits = dict(zip(shown, last_commits(git, commit, shown), strict=True))
    reasons = _Reasons(ranked, paths, matches, frames_in(frames, paths), words.generic)
    return tuple(
        LocatedFile(
            path=path,
            rank=place + 1,
            score=file.score,
            probability=file.probability,
            explanation=reasons(place),
            contributions=dict(file.contributions),
            places=tuple(LocatedPlace(**vars(found), commits=commits[found]) for found in matches[path].places),
        )
        for place, (file, path) in enumerate(zip(ranked.found, paths, strict=True))
    )


class _Reasons:
    """Says why files are found.

    A reason is given if it is true and its features add to the score. If there is none, many small ones add up: then
    the number of commits that changed the file is said.

    Args:
        ranked: The files.
        paths: Their paths.
        matches: What they share with the report.
        frames: The frames of stack traces in them.
        generic: Words that no reason names.
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
        self._found = ranked.found
        self._paths = paths
        self._matches = matches
        self._frames = frames
        self._generic = generic
        self._text = f"{ranked.query.title}\n{ranked.query.description}"
        self._numbers = history.table.numbers
        self._days = days_before(history, ranked.query, before)
        index = history.index
        changers = [index.table.row_commit[index.rows_of_path[file.path]] for file in ranked.found]
        self._commits = [np.unique(commits[commits < before]) for commits in changers]
        self._num_similar = ranked.num_similar

    def __call__(self, place: int) -> tuple[str, ...]:
        """The reasons for a file, by its place from 0."""
        reasons = (
            (NAMING, self._naming),
            (TRACES, self._traces),
            (WORDS, self._words),
            (FIXES, self._similar_fixes),
            (TOGETHER, self._together),
            (FIXED, self._fixed),
        )
        shares = self._found[place].contributions
        found = [say(place) for names, say in reasons if sum(shares.get(name, 0.0) for name in names) > 0]
        said = tuple(reason for reason in found if reason)
        return said or (f"changed by {_counted(len(self._commits[place]), 'commit')}",)

    def _naming(self, place: int) -> str:
        return "named in the report" if is_named(self._paths[place], self._text) else ""

    def _traces(self, place: int) -> str:
        frames = self._frames[self._paths[place]]
        return f"in a stack trace (frame {frames[0].number:,})" if frames else ""

    def _words(self, place: int) -> str:
        terms = [term for term in self._matches[self._paths[place]].terms if term not in self._generic]
        return f"words: {', '.join(terms[:MAX_NAMED])}" if terms else ""

    def _similar_fixes(self, place: int) -> str:
        path = self._found[place].path
        count = int(self._num_similar[path]) if path < len(self._num_similar) else 0
        return f"fixes of similar reports changed it ({count} of {MAX_SIMILAR})" if count else ""

    def _together(self, place: int) -> str:
        """Which of the files before it was changed with it in most commits; large ones do not count."""
        num_files = self._numbers[:, NUMBERS.index("num_files")]
        own = self._commits[place]
        own = own[num_files[own] <= MAX_COMMIT_FILES]
        counts = [len(np.intersect1d(own, other, assume_unique=True)) for other in self._commits[:place]]
        most = max(counts, default=0)
        if most < max(MIN_TOGETHER, MIN_TOGETHER_SHARE * len(own)):
            return ""
        return f"often changed with {self._short_name(counts.index(most))} (in {most:,} of {len(own):,} commits)"

    def _short_name(self, place: int) -> str:
        """The name of a file; its path if another file has the name too."""
        name = PurePosixPath(self._paths[place]).name
        is_unique = sum(PurePosixPath(path).name == name for path in self._paths) == 1
        return name if is_unique else self._paths[place]

    def _fixed(self, place: int) -> str:
        commits = self._commits[place]
        days = self._days[commits[self._numbers[commits, NUMBERS.index("is_fix")] > 0]]
        last = int(days.min(initial=np.inf)) if len(days) else RECENT_DAYS + 1
        return f"recently fixed ({_counted(last, 'day')} before)" if last <= RECENT_DAYS else ""


def is_named(path: str, text: str) -> bool:
    """Whether a report names a file: ``CSVParser.java``, ``CSVParser`` or ``Lexer``; of ``git.py`` not only ``git``.

    Args:
        path: The file.
        text: The report.
    """
    name = PurePosixPath(path)
    looks_like_code = CODE_LIKE.search(name.stem) is not None or name.stem[:1].isupper()
    wanted = name.stem if looks_like_code else name.name
    return re.search(rf"(?<![\w-]){re.escape(wanted)}(?!\w)", text) is not None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
