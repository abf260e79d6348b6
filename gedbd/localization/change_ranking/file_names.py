"""Scores by the files of a change: whether the report names them, when they were last changed, and their number.

A change is a commit, file or hunk; ``paths`` holds its changed paths, one per line.
"""

import re
from collections.abc import Collection, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.report_words import find_frames
from gedbd.retrieval.report_ranking.feature_store import days_of
from gedbd.retrieval.scorers.scorer_contract import EarlierScorer, ScorerInputs
from gedbd.text.diffs import change_fields
from gedbd.text.words import PART, WORD, separate

Hit = Literal["file", "method"]
MAX_FRAME_NUMBER = 10  # later frames have the weight of this frame


class NameIndex:
    """Maps each name to the documents that have it."""

    def __init__(self, names: Sequence[Collection[str]]) -> None:
        rows: dict[str, list[int]] = {}
        for row, document_names in enumerate(names):
            for name in set(document_names):
                rows.setdefault(name, []).append(row)
        self._rows = {name: np.array(name_rows) for name, name_rows in rows.items()}

    def rows(self, name: str, before: int) -> np.ndarray:
        """The documents, among the first ``before``, that have a name, ascending."""
        rows = self._rows.get(name, np.empty(0, dtype=np.int64))
        return rows[: np.searchsorted(rows, before)]


class FileNames(EarlierScorer):
    """Sums the names of changed files that the report contains, weighted by their rarity among earlier changes.

    The name of ``src/main/JspUtil.java`` is ``jsputil``. Only names of several parts count (JspUtil, web_xml). The
    weight of a name is log((n + 1) / (df + .5)) for n earlier changes of which df have it.
    """

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes the names of the files."""
        self.index_ = NameIndex([compound_names(" ".join(stems)) for stems in file_stems(inputs.documents)])
        self.queries_ = [
            compound_names(text) for text in inputs.queries["title"] + "\n" + inputs.queries["description"]
        ]

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Sums of weights, 0 or above."""
        total = np.zeros(before)
        for name in sorted(self.queries_[row]):  # a fixed order, so that rounding is reproducible
            rows = self.index_.rows(name, before)
            total[rows] += np.log((before + 1) / (len(rows) + 0.5))
        return total


def compound_names(text: str) -> set[str]:
    """The names of several parts in a text, lower case."""
    return {word.lower() for word in set(WORD.findall(separate(text))) if len(PART.findall(word)) > 1}


class StackTraceHits(EarlierScorer):
    """1 / i for the first frame i of the report's stack traces that the change touches, else 0.

    Only frames of files that an earlier change touched are counted, not those of libraries. From the tenth frame on,
    all have the weight 1/10. Source of the weights: Wong et al., "Boosting Bug-Report-Oriented Fault Localization with
    Segmentation and Stack-Trace Analysis", ICSME 2014.

    Args:
        hit: ``file``: the change touches a file with the name of the frame's file or class. ``method``: it also
            declares the frame's method, or lies in it.
    """

    def __init__(self, hit: Hit = "file") -> None:
        if hit not in get_args(Hit):
            raise ValueError(f"StackTraceHits' hit={hit} is unknown: choose {', '.join(get_args(Hit))}")
        self.hit = hit

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes files and methods of the changes, and reads the frames of the reports."""
        self.files_ = NameIndex(file_stems(inputs.documents))
        if self.hit == "method":
            diffs = inputs.documents["diff"]
            self.methods_ = NameIndex([change_fields(diff).names.split("\n") for diff in diffs])
        self.queries_ = [frames_by_file(text) for text in inputs.queries["description"]]

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Weights of the first frames, from 0 to 1."""
        scores = np.zeros(before)
        number = 0
        for file, method in self.queries_[row]:
            rows = self.files_.rows(file, before)
            if not len(rows):
                continue
            number += 1
            if self.hit == "method":
                rows = np.intersect1d(rows, self.methods_.rows(method, before), assume_unique=True)
            scores[rows] = np.maximum(scores[rows], 1 / min(number, MAX_FRAME_NUMBER))
        return scores


class FileRecency(EarlierScorer):
    """-log(1 + days from the last earlier change of a file to the report); the maximum over the files of a change.

    A change without a path scores as if the first document had changed its file last; without dates, rows count as
    days.
    """

    def read(self, inputs: ScorerInputs) -> None:
        """Reads paths and dates."""
        lines = [paths.split("\n") if paths else [] for paths in inputs.documents["paths"]]
        counts = np.array([len(paths) for paths in lines], dtype=np.int64)
        # One entry for each path of each document, in the order of the documents.
        self.rows_ = np.repeat(np.arange(len(lines)), counts)
        self.paths_ = pd.factorize(np.array([path for paths in lines for path in paths], dtype=object))[0]
        created_at = inputs.documents["created_at"]
        origin = created_at.min()
        self.days_ = days_of(created_at, origin)
        self.query_days_ = days_of(inputs.queries["created_at"], origin)
        if np.isnan(self.days_).any() or np.isnan(self.query_days_).any():
            self.days_ = np.arange(len(lines), dtype=np.float64)
            self.query_days_ = self.num_earlier_.astype(np.float64)

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """0 or below."""
        end = np.searchsorted(self.rows_, before)
        rows, paths = self.rows_[:end], self.paths_[:end]
        last = np.zeros(paths.max(initial=0) + 1)
        np.maximum.at(last, paths, self.days_[rows])
        newest = np.zeros(before)
        np.maximum.at(newest, rows, last[paths])
        return np.asarray(-np.log1p(np.maximum(self.query_days_[row] - newest, 0)))


class NumFilesScorer(EarlierScorer):
    """log(1 + number of files of the change's commit); reads neither content nor report."""

    def read(self, inputs: ScorerInputs) -> None:
        """Counts the distinct paths of each commit."""
        documents = inputs.documents
        paths = documents["paths"].str.split("\n").explode()
        table = pd.DataFrame({"commit": documents["commit"].loc[paths.index].to_numpy(), "path": paths.to_numpy()})
        counts = table[table["path"] != ""].drop_duplicates().groupby("commit").size()
        self.counts_ = np.log1p(documents["commit"].map(counts).fillna(0).to_numpy(dtype=np.float64))

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """0 or above."""
        return np.asarray(self.counts_[:before])


def file_stems(changes: pd.DataFrame) -> list[set[str]]:
    """File names of each change, without folder and suffix."""
    return [{file_stem(path) for path in paths.split("\n") if path} for paths in changes["paths"]]


def file_stem(path: str) -> str:
    """File name without folder and suffix; ``.gitignore`` stays as it is."""
    name = re.split(r"[/\\]", path)[-1]
    return name[: name.rfind(".")] if "." in name[1:] else name


def frames_by_file(text: str) -> list[tuple[str, str]]:
    """File name and method of each frame of a report's stack traces, without duplicates."""
    frames: dict[tuple[str, str], None] = {}
    for frame in find_frames(text):
        outer_class = frame.class_name.rpartition(".")[2].partition("$")[0]
        # A constructor has the name of its class in the source.
        method = outer_class if frame.method == "<init>" else frame.method
        frames[file_stem(frame.file) or outer_class, method] = None
    return list(frames)
