"""Suspect commits with what people need to judge them: message, matching hunks, reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from gedbd.corpora.repository.commits import Limits
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.objects import read_commits
from gedbd.corpora.repository.walk import WalkedCommit
from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.ranker import Suspect
from gedbd.triage.locating.hunks import MatchedHunk, match_hunks
from gedbd.triage.locating.reasons import reasons
from gedbd.triage.locating.words import placed_words


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


def read_changes(
    git: Git,
    history: ChangeHistory,
    query: ChangeQuery,
    suspects: Sequence[Suspect],
    limits: Limits,
    max_hunks: int,
) -> list[LocatedChange]:
    """Reads the suspects from the repository and finds what they share with the report.

    Raises:
        ValueError: A commit is no longer in the repository, or is damaged.
    """
    ids = [history.ids[suspect.row] for suspect in suspects]
    dates = [_moment(history.created_at[suspect.row]) for suspect in suspects]
    parents = _first_parents(git, ids)
    walked = [WalkedCommit(id_, parents[id_], date) for id_, date in zip(ids, dates, strict=True)]
    commits = [read.commit for read in read_commits(git, walked, limits)]
    weights = word_weights(history, query)
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
                explanation=reasons(commit, query, weights, suspect.contributions),
                contributions=dict(suspect.contributions),
                hunks=match_hunks(commit, weights, max_hunks),
            )
        )
    return located


def word_weights(history: ChangeHistory, query: ChangeQuery) -> dict[str, float]:
    """The words of a report that commits before it have, each with log(1 + N / n) for n of N commits."""
    words = sorted({word.word for word in placed_words(f"{query.title}\n{query.description}")})
    num_before = history.num_before(query.created_at)
    numbers = np.array([text[0] for text in history.vocabulary([[word] for word in words], learn=False)], dtype="i4")
    frequencies = history.index.frequency(numbers, num_before)
    return {
        word: float(np.log1p(num_before / frequency))
        for word, frequency in zip(words, frequencies.tolist(), strict=True)
        if frequency > 0
    }


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
