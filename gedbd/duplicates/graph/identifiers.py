"""Edges between reports that share rare identifiers or error lines, which titles rarely show."""

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.graph.build_graph import TitleGraph
from gedbd.duplicates.graph.sparse_adjacency import connect
from gedbd.text.words import find_error_lines, find_identifiers

BLOCK_ROWS = 2048


class SharedIdentifiers:
    """Connects every report with those whose rare identifiers and error lines are most similar to its own.

    An edge's weight is the cosine of both reports' tf-idf vectors, in which each identifier or line counts once.

    Args:
        k: Neighbours of a report, at most.
        max_reports: An identifier or line that more reports have is ignored.
    """

    def __init__(self, k: int, max_reports: int) -> None:
        self.k = k
        self.max_reports = max_reports

    def graph(self, corpus: Corpus, inside: Tensor) -> TitleGraph:
        """The graph over N reports.

        Args:
            corpus: N reports.
            inside: ``(N,)`` bool, the reports that send messages; identifiers are counted in these.

        Raises:
            ValueError: If no two reports share a rare identifier.
        """
        reports = corpus.reports
        texts = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
        senders = inside.nonzero().squeeze(1).numpy()
        vectorizer = TfidfVectorizer(analyzer=_identifiers, binary=True, max_df=self.max_reports, dtype=np.float32)
        try:
            vectorizer.fit([texts[row] for row in senders])
        except ValueError:  # of scikit-learn: it knows no identifier
            raise ValueError(f"{corpus.name}: no report has a rare identifier: choose another graph") from None
        vectors = csr_array(vectorizer.transform(texts))
        edges, weight = _nearest(vectors, senders, self.k)
        if not len(weight):
            raise ValueError(f"{corpus.name}: no two reports share a rare identifier: choose another graph")
        return TitleGraph(connect(torch.from_numpy(edges), torch.from_numpy(weight), inside))


def _identifiers(text: str) -> list[str]:
    return [*find_identifiers(text), *find_error_lines(text)]


def _nearest(vectors: csr_array, senders: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The edges from each row's ``k`` nearest senders with a cosine above 0, ``(2, E)``, and their cosines ``(E,)``."""
    others = vectors[senders].T.tocsr()
    blocks = [vectors[start : start + BLOCK_ROWS] @ others for start in range(0, vectors.shape[0], BLOCK_ROWS)]
    cosines = vstack([_strongest(block, k + 1) for block in blocks]).tocoo()  # a report is its own nearest neighbour
    apart = senders[cosines.col] != cosines.row
    edges = np.stack([senders[cosines.col], cosines.row])[:, apart].astype(np.int64)
    return edges, cosines.data[apart].clip(max=1)


def _strongest(cosines: csr_array, k: int) -> csr_array:
    """The k highest entries of each row."""
    found = cosines.tocoo()
    order = np.lexsort((found.col, -found.data, found.row))
    row = found.row[order]
    # Of rows 0 0 0 1 1 the places are 0 1 2 0 1.
    place = np.arange(len(row)) - np.searchsorted(row, row)
    kept = order[place < k]
    return csr_array((found.data[kept], (found.row[kept], found.col[kept])), shape=cosines.shape)
