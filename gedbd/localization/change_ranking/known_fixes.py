"""Earlier fixed reports, and the files that their fixes changed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory, in_utc
from gedbd.localization.change_ranking.report_words import Bm25Field, ReportWords, WordCounts, report_words
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.words import CodeWords

MAX_SIMILAR = 10  # fixes whose reports count as similar to a query


class KnownFix(NamedTuple):
    """A fixed bug."""

    title: str  # of its report
    description: str  # of its report
    known_at: pd.Timestamp  # when it was fixed and its files became known; not before its report was created
    fixing: tuple[str, ...]  # ids of the commits that fixed it


class KnownFixes:
    """Fixed bugs of a repository in the order in which they became known; other commits than its own are left out."""

    def __init__(self, history: ChangeHistory, fixes: Sequence[KnownFix]) -> None:
        known_at = np.array([in_utc(fix.known_at) for fix in fixes], dtype="datetime64[us]")
        order = np.argsort(known_at, kind="stable")
        self._known_at = known_at[order]
        ordered = [fixes[number] for number in order]
        row = {id_: number for number, id_ in enumerate(history.ids)}
        nothing = np.empty(0, dtype=np.int64)
        fixing = [_rows(fix.fixing, row) for fix in ordered]
        self._paths = RaggedArray.of([changed_paths(history, rows) for rows in fixing], nothing)
        self._vocabulary = Vocabulary()
        words = CodeWords()
        counted = []
        for fix in ordered:
            text = words.of_text(f"{fix.title}\n{fix.description}")
            numbers, counts = np.unique(self._vocabulary([text], learn=True)[0], return_counts=True)
            counted.append(np.column_stack([numbers, counts]).astype(np.int32))
        self._words = WordCounts(RaggedArray.of(counted, np.empty((0, 2), dtype=np.int32)))

    def __len__(self) -> int:
        return len(self._known_at)

    def votes(self, report: ReportWords, moment: pd.Timestamp | None, num_paths: int) -> np.ndarray:
        """Scores of the first P paths by earlier fixes, ``(P,)``.

        The sum, over the fixes that changed a file, of the similarity of the report / the root of the number of files
        (SimiScore: Zhou, Zhang, Lo, "Where Should the Bugs Be Fixed?", ICSE 2012).
        """
        similarity = self._similarity(report, moment)
        count = len(similarity)
        changed = self._paths.values[: self._paths.starts[count]]
        vote = np.repeat(similarity / np.sqrt(self._paths.lengths[:count] + 1), self._paths.lengths[:count])
        is_path = changed < num_paths
        return np.bincount(changed[is_path], vote[is_path], num_paths).astype(np.float32)

    def num_similar(self, title: str, description: str, moment: pd.Timestamp | None) -> np.ndarray:
        """Number of the ``MAX_SIMILAR`` fixes with the most similar reports before ``moment`` that changed each path.

        Returns:
            ``(P,)``, up to the last path that a fix changed.
        """
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        similarity = self._similarity(report_words(title, description), moment)
        nearest = np.argsort(-similarity, kind="stable")[:MAX_SIMILAR]
        rows = [self._paths[row] for row in nearest[similarity[nearest] > 0].tolist()]
        return np.bincount(np.concatenate([np.empty(0, dtype=np.int64), *rows]))

    def _similarity(self, report: ReportWords, moment: pd.Timestamp | None) -> np.ndarray:
        """BM25 of the known reports, as a share of the score of words that are in no other report."""
        count = len(self)
        if moment is not None:
            count = int(np.searchsorted(self._known_at, in_utc(moment), side="left"))
        field = Bm25Field(self._words.lengths[:count, 0], count, {"words": report.words})
        numbers = self._vocabulary([list(report.words)], learn=False)[0].tolist()
        for word, number in zip(report.words, numbers, strict=True):
            rows, counts = self._words.find(number, count)
            field.add(word, rows, counts[:, 0])
        highest = sum(report.words.values()) * np.log1p((count + 0.5) / 0.5) / 2
        return np.asarray(field.scores["words"] / max(highest, 1e-9))


def _rows(ids: Sequence[str], row: Mapping[str, int]) -> np.ndarray:
    """Rows of the commits that are in the history, ascending."""
    return np.array(sorted({row[id_] for id_ in ids if id_ in row}), dtype=np.int64)


def changed_paths(history: ChangeHistory, commits: np.ndarray) -> np.ndarray:
    """The paths that the commits changed, ascending."""
    table = history.table
    return np.unique(table.row_path[np.isin(table.row_commit, commits)])
