"""Milliseconds of one search, and how often the duplicate is among the first: gedbd beside libraries for search.

The queries are the reports of the newest fifth that have an earlier duplicate. All contestants answer each query before
the next one comes, encoding it included, and find the best of the earlier reports. A group of duplicates counts once.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import bm25s
import faiss
import numpy as np
from hydra.utils import instantiate
from measure import Row, seconds
from prepared_data import configuration
from search import build_index
from sentence_loop import sentence_transformer

from gedbd.corpora.bug_report import Filters, report_from_row
from gedbd.corpora.corpus import Corpus
from gedbd.experiments.prepare import encode_corpus
from gedbd.retrieval.report_ranking.report_training import ReportHistory, fit_ranker
from gedbd.triage.stored_index import open_index
from gedbd.triage.triage_model import default_model

SECTION = "search beside libraries"
NEWEST = 0.2
DEEP = 200  # reports that a library finds, so that there are ten groups among them
MAX_CHARACTERS = 2000
WARM = 10
Search = Callable[[int], object]


def main() -> list[Row]:
    """Measures."""
    cfg = configuration()
    corpus: Corpus = instantiate(cfg.dataset)
    vectors = encode_corpus(cfg, corpus, None).vectors
    history = ReportHistory.of_corpus(corpus, vectors)
    newest = int((1 - NEWEST) * len(corpus))
    rows = history.duplicates
    older, queries = rows[rows < newest], rows[rows >= newest].tolist()
    ranker = fit_ranker(list(history.replay(older, "older duplicates")))
    texts = [f"{title} {text}"[:MAX_CHARACTERS] for title, text in corpus.reports[["title", "description"]].to_numpy()]
    libraries = {
        "bm25s": _bm25s(texts),
        "SQLite FTS5": _fts5(texts),
        "sentence-transformers, faiss": _faiss(texts, vectors, cfg.encoder.max_tokens),
    }
    found = {name: {row: search(row) for row in queries} for name, search in libraries.items()}
    ranks = {name: [_rank(history, row, best) for row, best in of_query.items()] for name, of_query in found.items()}
    ranks["gedbd"] = []
    for one in history.replay(queries, "newest duplicates"):
        right = one.right[np.argsort(-ranker.scores(one.features), kind="stable")]
        ranks["gedbd"].append(1 + int(right.argmax()) if right.any() else 0)
    with tempfile.TemporaryDirectory() as folder:
        model = replace(default_model(), ranker=ranker)
        build_index(corpus, vectors, cfg, model, Path(folder))
        waits = _timed(libraries | {"gedbd": _gedbd(corpus, Path(folder))}, queries)
    return [_row(name, waits, np.array(ranks[name]), len(corpus)) for name in waits]


def _bm25s(texts: list[str]) -> Callable[[int], np.ndarray]:
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def search(row: int) -> np.ndarray:
        (words,) = bm25s.tokenize([texts[row]], stopwords="en", return_ids=False, show_progress=False)
        scores = index.get_scores(words)[:row]
        return np.argsort(-scores, kind="stable")[:DEEP]

    return search


def _fts5(texts: list[str]) -> Callable[[int], np.ndarray]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE report USING fts5(text, tokenize = 'porter')")
    database.executemany("INSERT INTO report(rowid, text) VALUES (?, ?)", enumerate(texts))
    statement = "SELECT rowid FROM report WHERE report MATCH ? AND rowid < ? ORDER BY rank LIMIT ?"

    def search(row: int) -> np.ndarray:
        (words,) = bm25s.tokenize([texts[row]], stopwords="en", return_ids=False, show_progress=False)
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        return np.array([one for (one,) in database.execute(statement, (asked, row, DEEP))], dtype=np.int64)

    return search


def _faiss(texts: list[str], vectors: np.ndarray, max_tokens: int) -> Callable[[int], np.ndarray]:
    """The exact index of the reports' vectors, queried with those of sentence-transformers by the same encoder."""
    model = sentence_transformer(max_tokens)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))

    def search(row: int) -> np.ndarray:
        query = model.encode([texts[row]], normalize_embeddings=True, show_progress_bar=False)
        chosen = faiss.SearchParameters(sel=faiss.IDSelectorRange(0, row))  # type: ignore[call-arg]
        return np.asarray(index.search(query, DEEP, params=chosen)[1][0])

    return search


def _gedbd(corpus: Corpus, folder: Path) -> Search:
    """The whole search with its reasons, as the service answers it."""
    index = open_index(folder, "~/.cache/gedbd")
    reports = {row: report_from_row(one) for row, one in enumerate(corpus.reports.itertuples(index=False))}
    return lambda row: index.search(reports[row], 10, Filters(created_before=reports[row].created_at))


def _rank(history: ReportHistory, row: int, best: np.ndarray) -> int:
    """The rank of the first right group among those of the reports that were found, 0 if it is not there."""
    is_right = history.group[best] == history.group[row]
    if not is_right.any():
        return 0
    group = history.known_before(row).group[best]
    first = int(is_right.argmax())
    return len(set(group[: first + 1].tolist()))


def _timed(contestants: Mapping[str, Search], queries: list[int]) -> dict[str, np.ndarray]:
    """Milliseconds of each query, by contestant."""
    waits: dict[str, list[float]] = {name: [] for name in contestants}
    for row in queries[:WARM] + queries:
        for name, search in contestants.items():
            waits[name].append(1000 * seconds(partial(search, row)))
    return {name: np.array(values[WARM:]) for name, values in waits.items()}


def _row(name: str, waits: Mapping[str, np.ndarray], ranks: np.ndarray, size: int) -> Row:
    middle, high = np.percentile(waits[name], [50, 95])
    hits = [f"RR@{k} {((ranks > 0) & (ranks <= k)).mean():.3f}" for k in (1, 10)]
    note = f"p95 {high:.1f} ms; {', '.join(hits)} of {len(ranks):,} queries, {size:,} reports"
    ratio = None if name == "gedbd" else float(np.median(waits["gedbd"] / waits[name]))
    return Row(SECTION, f"{name}, p50", float(middle), "ms", "gedbd" if ratio else "", ratio, note)
