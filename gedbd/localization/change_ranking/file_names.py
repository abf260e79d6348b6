"""Scores from the files of a change: whether the report names them, how recently they were changed, how many they are.

The table of changes may be one of commits, files or hunks; ``paths`` holds the changed paths, one a line.
"""

import re
from collections.abc import Collection, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from gedbd.retrieval.reports.report_features import days_of
from gedbd.retrieval.scorers.scorer_contract import EarlierScorer, ScorerInputs
from gedbd.text.diffs import change_fields
from gedbd.text.stack_traces import find_frames
from gedbd.text.words import PART, WORD, separate

Names = Literal["compound", "any", "parts"]
Hit = Literal["file", "method"]
LONG_TRACE = 10  # frames further down weigh as much as this one


class NameIndex:
    """Which documents have a name.

    Args:
        names: The names of each document, in the order of the documents.
    """

    def __init__(self, names: Sequence[Collection[str]]) -> None:
        rows: dict[str, list[int]] = {}
        for row, of_document in enumerate(names):
            for name in set(of_document):
                rows.setdefault(name, []).append(row)
        self._rows = {name: np.array(with_name) for name, with_name in rows.items()}

    def rows(self, name: str, before: int) -> np.ndarray:
        """The documents with a name among the first ``before``, ascending."""
        rows = self._rows.get(name, np.empty(0, dtype=np.int64))
        return rows[: np.searchsorted(rows, before)]

    def weights(self, names: Collection[str], before: int, idf: bool) -> np.ndarray:
        """For each of the first ``before`` documents the sum over the given names that it has, ``(before,)``.

        A name counts log((n + 1) / (df + .5)) for n documents of which df have it; 1 without ``idf``.
        """
        total = np.zeros(before)
        for name in sorted(set(names)):  # always the same order, so that sums are equal to the last bit
            rows = self.rows(name, before)
            total[rows] += np.log((before + 1) / (len(rows) + 0.5)) if idf else 1
        return total


class FileNames(EarlierScorer):
    """Sums the names of changed files that the report contains, weighted by their rarity among earlier changes.

    The name of ``src/main/JspUtil.java`` is ``jsputil``.

    Args:
        names: ``compound`` for names of several parts alone (JspUtil, web_xml); ``any`` for all (Request); ``parts``
            for the parts of names (jsp, util).
        idf: Weigh names; False counts them.
    """

    def __init__(self, names: Names = "compound", idf: bool = True) -> None:
        if names not in get_args(Names):
            raise ValueError(f"FileNames' names={names} is unknown: choose {', '.join(get_args(Names))}")
        self.names = names
        self.idf = idf

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes the names of the files."""
        self.index_ = NameIndex([self._names(" ".join(stems)) for stems in file_stems(inputs.documents)])
        texts = inputs.queries["title"] + "\n" + inputs.queries["description"]
        self.queries_ = [self._names(text) for text in texts]

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Sums of weights, 0 or above."""
        return self.index_.weights(self.queries_[row], before, self.idf)

    def _names(self, text: str) -> set[str]:
        """The names in a text, lower case."""
        names = set()
        for word in set(WORD.findall(separate(text))):
            parts = PART.findall(word)
            if self.names == "parts":
                names |= {part.lower() for part in parts if len(part) > 1}
            elif self.names == "any" or len(parts) > 1:
                names.add(word.lower())
        return names


class StackTraceHits(EarlierScorer):
    """1 / i for the first frame i of the report's stack traces that the change touches, 0 for none.

    Only frames of files that an earlier change has touched count: those of libraries have no number. From the tenth on
    all weigh 1/10. Source of the weights: Wong et al., "Boosting Bug-Report-Oriented Fault Localization with
    Segmentation and Stack-Trace Analysis", ICSME 2014.

    Args:
        hit: ``file``: the change touches the frame's file, or the file of its class, by name. ``method``: it also
            declares the frame's method, or is inside of it.
    """

    def __init__(self, hit: Hit = "file") -> None:
        if hit not in get_args(Hit):
            raise ValueError(f"StackTraceHits' hit={hit} is unknown: choose {', '.join(get_args(Hit))}")
        self.hit = hit

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes files and methods of the changes, and finds the frames of the reports."""
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
            scores[rows] = np.maximum(scores[rows], 1 / min(number, LONG_TRACE))
        return scores


class FileRecency(EarlierScorer):
    """-log(1 + days from the last change of a file to the report), of a change with several files the maximum.

    The last change is any document before the report with the path. A change without a path scores as if its file had
    been changed last with the first document; without dates, rows count as days.
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
        self.asked_ = days_of(inputs.queries["created_at"], origin)
        if np.isnan(self.days_).any() or np.isnan(self.asked_).any():
            self.days_ = np.arange(len(lines), dtype=np.float64)
            self.asked_ = self.num_earlier_.astype(np.float64)

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """0 or below."""
        end = np.searchsorted(self.rows_, before)
        rows, paths = self.rows_[:end], self.paths_[:end]
        last = np.zeros(paths.max(initial=0) + 1)
        np.maximum.at(last, paths, self.days_[rows])
        newest = np.zeros(before)
        np.maximum.at(newest, rows, last[paths])
        return np.asarray(-np.log1p(np.maximum(self.asked_[row] - newest, 0)))


class NumFilesScorer(EarlierScorer):
    """log(1 + number of files that the commit of a change touches): it reads no content, and no report."""

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
    """The names of the files of each change without folder and suffix."""
    return [{file_stem(path) for path in paths.split("\n") if path} for paths in changes["paths"]]


def file_stem(path: str) -> str:
    """The name of a file without folders and suffix; ``.gitignore`` keeps its only part."""
    name = re.split(r"[/\\]", path)[-1]
    return name[: name.rfind(".")] if "." in name[1:] else name


def frames_by_file(text: str) -> list[tuple[str, str]]:
    """Name of the file and method of each frame of a report's stack traces, each pair once."""
    frames: dict[tuple[str, str], None] = {}
    for frame in find_frames(text):
        outer_class = frame.class_name.rpartition(".")[2].partition("$")[0]
        # A constructor has the name of its class in the source.
        method = outer_class if frame.method == "<init>" else frame.method
        frames[file_stem(frame.file) or outer_class, method] = None
    return list(frames)
