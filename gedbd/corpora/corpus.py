"""A corpus: documents, the duplicate groups among them, and where they come from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Groups, Links


@dataclass(frozen=True, repr=False)
class Corpus:
    """The reports of a tracker and their duplicates.

    Attributes:
        documents: N reports.
        relevance: Their duplicate groups.
        links: The links behind the groups, in the direction in which the tracker states them; None if unknown.
        image_dir: Folder of the files that the column ``attachments`` names; None if there is none.
        url_template: Address of a report that has none, with ``{issue_id}`` for its id; None if unknown.
        source: The options that it was read with, the section ``dataset`` of a configuration; None if unknown.
    """

    documents: Documents
    relevance: Groups
    links: Links | None = None
    image_dir: Path | None = None
    url_template: str | None = None
    source: Mapping[str, Any] | None = None

    @classmethod
    def of_table(cls, name: str, table: pd.DataFrame, group: np.ndarray) -> "Corpus":
        """A corpus of a table of documents and their group numbers, see ``Documents`` and ``Groups``."""
        return cls(Documents(name, table), Groups(group))

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        sizes = np.unique(self.group, return_counts=True)[1]
        sizes = sizes[sizes > 1]
        parts = [f"{len(self):,} reports", f"{sizes.sum():,} of them in {len(sizes):,} duplicate groups"]
        if len(self) and self.documents.has_dates:
            dates = self.reports["created_at"]
            parts.append(f"{dates.iloc[0]:%Y-%m-%d} to {dates.iloc[-1]:%Y-%m-%d}")
        if self.warnings:
            parts.append(f"{len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}")
        return f"Corpus({self.name!r}: {', '.join(parts)})"

    @property
    def name(self) -> str:
        """Short name, see ``Documents``."""
        return self.documents.name

    @property
    def reports(self) -> pd.DataFrame:
        """The table of the documents."""
        return self.documents.table

    @property
    def group(self) -> np.ndarray:
        """``(N,)`` group numbers, see ``Groups``."""
        return self.relevance.group

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader has to say, see ``Documents``."""
        return self.documents.warnings

    @property
    def fingerprint(self) -> str:
        """A hash of ids, texts and groups, by which a run recognizes its corpus."""
        # Other columns do not count: a template of addresses may change without making it another corpus.
        texts = self.reports[["id", "title", "description", *self.documents.more_texts]].assign(group=self.group)
        return hashlib.blake2b(pd.util.hash_pandas_object(texts).to_numpy().tobytes(), digest_size=16).hexdigest()


def keep_last(corpus: Corpus, count: int) -> Corpus:
    """The reports created last; a group that loses members keeps the others. Raises ValueError for a count below 1."""
    if count < 1:
        raise ValueError(f"dataset.last_n={count} must be 1 or more, or null for all reports")
    if count >= len(corpus):
        return corpus
    first = len(corpus) - count
    warning = f"only the newest {count:,} of {len(corpus):,} reports are kept (dataset.last_n)"
    table = corpus.reports.iloc[first:].reset_index(drop=True)
    documents = replace(corpus.documents, table=table, warnings=(*corpus.warnings, warning))
    links = None if corpus.links is None else corpus.links.since(first)
    return replace(corpus, documents=documents, relevance=corpus.relevance.last(count), links=links)


def keep_first(corpus: Corpus, count: int) -> Corpus:
    """The reports created first; a group that loses members keeps the others and its number."""
    warning = (
        f"the last {len(corpus) - count:,} of {len(corpus):,} reports were created after the test part and are left out"
    )
    table = corpus.reports.iloc[:count].reset_index(drop=True)
    documents = replace(corpus.documents, table=table, warnings=(*corpus.warnings, warning))
    links = None if corpus.links is None else corpus.links.until(count)
    return replace(corpus, documents=documents, relevance=Groups(corpus.group[:count]), links=links)
