"""Suspect commits with what people need to judge them: message, matching hunks, reasons."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import Suspect
from gedbd.localization.locating.hunks import MatchedHunk, match_hunks, placed_words
from gedbd.localization.repository.commit_history import read_commits
from gedbd.localization.repository.commits import Commit, Limits
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.walk import WalkedCommit
from gedbd.text.words import WORD

MAX_NAMED = 4  # words or files that a reason names
MAX_FAMILIES = 3
GENERIC_SHARE = 0.1  # of the commits or files, from which a word of theirs is generic
MIN_GENERIC = 5  # commits or files: in a young project, one commit may be a tenth of all
MIN_SHARE = 0.1  # of all positive contributions, from which a family of features is a reason
# What families of features are about, by the beginnings of their names; the first that fits counts. They claim nothing:
# a ranker may prefer a commit for what it lacks too, such as earlier bugs.
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
class LocatedChange:
    """A commit that may have induced the bug of a report.

    Attributes:
        id: Its id.
        rank: Its place, from 1.
        score: Its score: only the order of the scores of one report says something.
        created_at: Its date, UTC.
        message: The whole message.
        num_files: How many files it changes, as far as they were read.
        explanation: Why it is suspect, one reason each.
        contributions: What the features add to the score, by name.
        hunks: The hunks that match the report best, the best first.
    """

    id: str
    rank: int
    score: float
    created_at: datetime
    message: str
    num_files: int
    explanation: tuple[str, ...]
    contributions: dict[str, float]
    hunks: tuple[MatchedHunk, ...]

    @property
    def title(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0].strip()


class QueryWords(NamedTuple):
    """The words of a report that commits before it have.

    Attributes:
        weights: The words, lower case, each with log(1 + N / n) for n of N commits.
        generic: Those of them that say little, so that no reason names them: a tenth or more of the commits, or of the
            files that these changed, has them.
    """

    weights: dict[str, float]
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
    """Reads the suspects from the repository and finds what they share with the report.

    Args:
        git: The repository.
        history: The commits.
        query: The report.
        suspects: The suspects.
        words: See ``query_words``.
        limits: How much of a commit is read.
        max_hunks: How many matching hunks of each are given.

    Raises:
        ValueError: A commit is no longer in the repository, or is damaged.
    """
    ids = [history.ids[suspect.row] for suspect in suspects]
    dates = [_moment(history.created_at[suspect.row]) for suspect in suspects]
    parents = _first_parents(git, ids)
    walked = [WalkedCommit(id_, parents[id_], date) for id_, date in zip(ids, dates, strict=True)]
    commits = [read.commit for read in read_commits(git, walked, limits)]
    located = []
    for rank, (suspect, commit) in enumerate(zip(suspects, commits, strict=True), start=1):
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
    """The words of a report that commits before it have in message or diff."""
    identifiers = set(WORD.findall(f"{query.title}\n{query.description}"))  # a log repeats its words
    words = sorted({word.word for identifier in identifiers for word in placed_words(identifier)})
    num_before = history.num_before(query.created_at)
    numbers = np.array([text[0] for text in history.vocabulary([[word] for word in words], learn=False)], dtype="i4")
    frequencies = history.index.frequency(numbers, num_before)
    weights = {
        word: float(np.log1p(num_before / frequency))
        for word, frequency in zip(words, frequencies.tolist(), strict=True)
        if frequency > 0
    }
    num_files = history.index.num_paths(history.index.num_rows(num_before))
    in_commits = frequencies >= max(MIN_GENERIC, GENERIC_SHARE * num_before)
    in_files = history.index.file_frequency(numbers, num_before) >= max(MIN_GENERIC, GENERIC_SHARE * num_files)
    generic = (word for word, is_generic in zip(words, in_commits | in_files, strict=True) if is_generic)
    return QueryWords(weights, frozenset(generic))


def _moment(date: np.datetime64) -> datetime:
    return pd.Timestamp(date).to_pydatetime().replace(tzinfo=UTC)


def _first_parents(git: Git, ids: Sequence[str]) -> dict[str, str]:
    """The first parent of each commit, empty for a root."""
    found: dict[str, str] = {}
    if not ids:
        return found
    with git.stream("rev-list", "--no-walk=unsorted", "--parents", "--stdin", asked=ids) as lines:
        for line in lines:
            commit, *parents = line.decode("ascii").split()
            found[commit] = parents[0] if parents else ""
    return found


def reasons(
    commit: Commit, query: ChangeQuery, words: QueryWords, contributions: Mapping[str, float]
) -> tuple[str, ...]:
    """Why a commit is suspect, one reason each.

    Args:
        commit: The commit.
        query: The report.
        words: The words of the report.
        contributions: What the features add to its score, by name.
    """
    found = []
    names = _named_files(commit, query, words.weights)
    if names:
        found.append(f"changes {', '.join(names[:MAX_NAMED])}, named in the report")
    in_message = {word.word for word in placed_words(commit.message)} & (words.weights.keys() - words.generic)
    if in_message:
        rarest = sorted(in_message, key=lambda word: (-words.weights[word], word))
        found.append(f"the message mentions {', '.join(rarest[:MAX_NAMED])}")
    if query.created_at is not None:
        days = (query.created_at.to_pydatetime() - commit.created_at).days
        found.append(f"{days:,} days earlier")
    families = largest_families(contributions)
    if families:
        found.append(f"ranked by {', '.join(families)}")
    return tuple(found)


def largest_families(contributions: Mapping[str, float]) -> list[str]:
    """The families of features that add most to a score, the largest first, with what they add."""
    sums: dict[str, float] = defaultdict(float)
    for name, value in contributions.items():
        sums[family(name)] += value
    positive = {said: value for said, value in sums.items() if value > 0}
    total = sum(positive.values())
    chosen = sorted(positive, key=lambda said: (-positive[said], said))[:MAX_FAMILIES]
    return [f"{said} ({positive[said]:+.2f})" for said in chosen if positive[said] >= MIN_SHARE * total]


def family(name: str) -> str:
    """What a feature is about, in words; the name of an unknown one."""
    exact = dict(FAMILIES).get(name)
    return exact or next((said for start, said in FAMILIES if name.startswith(start)), name)


def _named_files(commit: Commit, query: ChangeQuery, weights: Mapping[str, float]) -> list[str]:
    """The names, without endings, of the changed files that the report names, those with the rarest name first.

    ``QuotedParser`` is a name wherever it stands; ``git``, which may be a word of prose, only as ``git.py``.
    """
    text = f"{query.title}\n{query.description}".lower()
    named = set()
    for change in commit.files:
        path = PurePosixPath(change.path)
        looks_like_code = path.stem != path.stem.lower() or "_" in path.stem
        if path.stem.lower() in weights and (looks_like_code or path.name.lower() in text):
            named.add(path.stem)
    return sorted(named, key=lambda stem: (-weights[stem.lower()], stem))
