"""The interface of scorers: fit once, then score query rows against all documents."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Groups, Links, Relevance, find_groups
from gedbd.io.console import track

BLOCK = 64


@dataclass(frozen=True)
class ScorerInputs:
    """The data that a scorer is fitted to.

    Attributes:
        documents: N documents in chronological order: text columns, ``created_at`` and attributes.
        queries: Q queries. The same object as ``documents`` where reports are queries and documents at once.
        train: Training pairs with ``query`` (row), ``document`` (row) and ``label``, 1 for a relevant document.
        validation: Validation pairs, whose labels may be learned from too; None if there are none, or if validation
            itself is scored.
        links: ``(2, L)`` rows of documents of one table that people have linked; None if unknown. A scorer reads only
            links whose documents both exist when a query is made.
    """

    documents: pd.DataFrame
    queries: pd.DataFrame
    train: pd.DataFrame
    validation: pd.DataFrame | None = None
    links: np.ndarray | None = None

    @classmethod
    def of_reports(
        cls,
        reports: pd.DataFrame,
        pairs: pd.DataFrame,
        validation: pd.DataFrame | None = None,
        links: np.ndarray | None = None,
    ) -> "ScorerInputs":
        """Reports as queries and documents at once.

        Args:
            reports: The table of all reports.
            pairs: Training pairs with ``earlier``, ``later`` and ``label``; the later report is the query.
            validation: Validation pairs in the same form.
            links: ``(2, L)`` rows of reports that people have linked.
        """
        names = {"later": "query", "earlier": "document"}
        later = None if validation is None else validation.rename(columns=names)
        return cls(reports, reports, pairs.rename(columns=names), later, links)

    @property
    def one_table(self) -> bool:
        """Whether queries and documents are the same reports."""
        # Identity, not equality: only then is query row i the same report as document row i.
        return self.queries is self.documents

    @property
    def num_earlier(self) -> np.ndarray:
        """``(Q,)`` number of documents that exist when each query is made: rows 0..n-1."""
        if self.one_table:
            return np.arange(len(self.documents))
        return count_earlier(self.documents["created_at"], self.queries["created_at"])

    @property
    def training_end(self) -> int:
        """The number of documents that exist when the last training query is made; all without training pairs.

        In one table that query, which is a document too, is one of them.
        """
        if self.train.empty:
            return len(self.documents)
        last = self.num_earlier[self.train["query"].to_numpy()].max()
        return int(last) + self.one_table

    @property
    def labelled(self) -> pd.DataFrame:
        """The pairs whose labels may be learned from: of training, and of validation if there are any."""
        return self.train if self.validation is None else pd.concat([self.train, self.validation], ignore_index=True)

    def relevance(self) -> Relevance:
        """Relevance by the training pairs alone: groups within one table, links between two."""
        if self.one_table:
            return Groups(linked_groups(self.train, len(self.documents)))
        positive = self.train.loc[self.train["label"] == 1, ["query", "document"]]
        return Links(positive, len(self.queries), len(self.documents))

    def check_one_table(self, scorer: str) -> None:
        """Raises ValueError if queries and documents are two tables."""
        if not self.one_table:
            raise ValueError(f"{scorer} compares documents of one table: it needs queries that are documents too")


class Scorer(Protocol):
    """Scores queries against documents. Subclasses override the attributes that differ.

    Attributes:
        threshold: The score from which a pair counts as relevant; None if it is to be chosen on validation pairs.
        on_training_grid: Whether that threshold is chosen from 0, 0.05, ..., 1, as training chooses it; else from
            quantiles of the scores, which may have any range.
        earlier_only: Scores are meaningful for the documents that exist when the query is made, not for later ones.
        warnings_: Warnings for the user about the data, set by ``fit``.
    """

    threshold: float | None = None
    on_training_grid: bool = False
    earlier_only: bool = False
    warnings_: tuple[str, ...] = ()

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns from all documents' contents and from the training pairs; by default, nothing."""
        return None

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Scores of B query rows against all documents, ``(B,) -> (B, N)``; higher is more similar."""
        ...


class EarlierScorer(Scorer):
    """Scores the documents before a query, one query at a time. Later documents get the lowest score of the earlier.

    Statistics, such as document frequencies, are those of the earlier documents alone.
    """

    earlier_only = True

    def fit(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""
        self.num_earlier_ = inputs.num_earlier
        self.num_documents_ = len(inputs.documents)
        self.read(inputs)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` float32."""
        scores = np.empty((len(rows), self.num_documents_), dtype=np.float32)
        for position, row in enumerate(rows):
            before = int(self.num_earlier_[row])
            earlier = self.earlier_scores(int(row), before)
            scores[position, :before] = earlier
            scores[position, before:] = earlier.min(initial=np.inf) if before else 0.0
        return scores

    @abstractmethod
    def read(self, inputs: ScorerInputs) -> None:
        """Reads documents and queries."""

    @abstractmethod
    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Scores of a query against the first ``before`` documents, ``(before,)``."""


def pair_scores(scorer: Scorer, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Scores of single pairs, ``(P,), (P,) -> (P,)`` float32."""
    unique, position = np.unique(queries, return_inverse=True)
    order = np.argsort(position, kind="stable")
    starts = np.arange(0, len(unique), BLOCK)
    # Pairs in the order of their queries: with positions [0, 0, 1, 2] and blocks of 2 queries, pairs 0..2 and 3 belong
    # together, and the ends are 3 and 4.
    ends = np.searchsorted(position[order], starts + BLOCK)
    scores = np.empty(len(queries), dtype=np.float32)
    first = 0
    for start, end in track(list(zip(starts.tolist(), ends.tolist(), strict=True)), "score pairs"):
        chosen = order[first:end]
        block = scorer.scores(unique[start : start + BLOCK])
        scores[chosen] = block[position[chosen] - start, documents[chosen]]
        first = end
    return scores


def linked_groups(train: pd.DataFrame, num_documents: int) -> np.ndarray:
    """The groups that positive pairs form, ``(N,)``; a document in no positive pair is its own group."""
    links = train.loc[train["label"] == 1, ["query", "document"]].to_numpy(dtype=np.int64).T
    return find_groups(links, num_documents)


def count_earlier(created_at: pd.Series, before: pd.Series) -> np.ndarray:
    """Number of documents created before each query, ``(Q,)``; all N if either table lacks dates.

    Args:
        created_at: ``(N,)`` creation dates of the documents, ascending.
        before: ``(Q,)`` creation dates of the queries.
    """
    if created_at.isna().any() or before.isna().any():
        return np.full(len(before), len(created_at), dtype=np.int64)
    # "left": a document of the same time is not earlier.
    return np.asarray(created_at.searchsorted(before, side="left"), dtype=np.int64)
