"""Candidate sets by tags, answers and titles: the heuristic of community question answering.

Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities" (2023): the
candidates of a question are the earlier ones that share a tag with it and whose tags have a Jaccard overlap above 0.15,
that are answered, and whose title has a cosine of at least 0.27. Unlike in the paper, ranks count duplicate groups, as
with ``EarlierReports``.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import number_tags, occurrence_matrix, tag_overlap, tags_of
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.io.console import track
from gedbd.retrieval.ranking_tasks import TOP_K, CandidateSets, ProtocolWords

BLOCK = 64  # queries whose scores against all documents are held at once
ALWAYS, NEVER = np.array([pd.Timestamp.min.value, pd.Timestamp.max.value]).view("datetime64[ns]")
WORDS = ProtocolWords(
    "Ranking in candidate sets",
    "Each of {count} test documents with an earlier duplicate is a query against the earlier documents that share tags"
    " with it, are answered, and have a similar title; ranks count duplicate groups. {reachable} of the queries have"
    " their duplicate among these candidates, which bounds RR@k; all earlier documents include it for every query.",
    "groups",
    "an earlier duplicate",
)


def find_candidate_sets(
    corpus: Corpus,
    wanted: np.ndarray,
    *,
    top_k: tuple[int, ...] = TOP_K,
    min_jaccard: float = 0.15,
    min_cosine: float = 0.27,
    encoder: DictConfig | LoadedEncoder,
    cache_dir: str | None = None,
) -> CandidateSets:
    """The queries of a split with their candidates.

    Args:
        corpus: N documents, with tags (see ``tags_of``) and optionally ``answered`` and ``answered_at``.
        wanted: ``(N,)`` bool, the documents of the split.
        top_k: Ranks at which metrics are computed.
        min_jaccard: Candidates have a higher Jaccard overlap of tags; ignored without tags.
        min_cosine: Lowest cosine of titles of candidates.
        encoder: The untrained encoder of titles, or its configuration, which is built if there are queries.
        cache_dir: Folder of cached vectors, for an encoder that is built here.

    Raises:
        ValueError: If a threshold is out of range.
    """
    queries = np.flatnonzero(wanted & (corpus.group < np.arange(len(corpus))))
    if not len(queries):
        return CandidateSets(queries, [], corpus.relevance, top_k, group=corpus.group, words=WORDS)
    seen = corpus.reports.iloc[: queries.max() + 1]  # no query reads later documents
    tags = tags_of(seen)
    answered_since, warnings = answer_times(seen)
    num_untagged = sum(not tags[query] for query in queries)
    if not any(tags):
        warnings.append("the corpus has no tags: candidates are chosen without them")
    elif num_untagged:
        warnings.append(f"{num_untagged:,} of {len(queries):,} queries have no tag, and so no candidate")
    if not isinstance(encoder, LoadedEncoder):
        # An encoder draws random weights; those of later training must not depend on the protocol.
        with torch.random.fork_rng(devices=[]):
            encoder = instantiate(encoder, cache_dir=cache_dir)
    titles = encoder.encode(seen["title"].tolist(), label="encode titles")
    created = _times(seen["created_at"])
    # Without dates, a document counts if it is answered at all.
    moments = np.where(np.isnat(created), NEVER, created)
    occurrences = occurrence_matrix(tags, number_tags(tags))
    sets: list[np.ndarray] = []
    for start in track(range(0, len(queries), BLOCK), "collect candidates"):
        block = queries[start : start + BLOCK]
        similar = titles[block] @ titles.T >= min_cosine
        if occurrences.nnz:
            similar &= tag_overlap(occurrences[block], occurrences) > min_jaccard
        for row, is_similar in zip(block, similar, strict=True):
            sets.append(np.flatnonzero(is_similar[:row] & (answered_since[:row] < moments[row])))
    task = CandidateSets(queries, sets, corpus.relevance, top_k, group=corpus.group, words=WORDS)
    reachable = [len(np.intersect1d(task.candidates(i), task.relevant(i), True)) > 0 for i in range(len(task))]
    size_warning = (
        f"candidate sets: {task.mean_candidates:,.0f} candidates per query on average, of {task.queries.mean():,.0f}"
        f" earlier documents; {np.mean(reachable):.1%} of {len(task):,} queries have a duplicate among them, the upper"
        f" bound of RR@k; duplicates that the candidates miss: {len(task) - sum(reachable):,}"
    )
    return replace(task, warnings=(*warnings, size_warning))


def answer_times(documents: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """The time of the first answer of each document, ``(N,)`` datetime64, and warnings.

    ``NEVER`` without an answer, and ``ALWAYS`` if the answer has no date.
    """
    if "answered" not in documents:
        warning = "the corpus does not say which documents are answered: all of them count as answered"
        return np.full(len(documents), ALWAYS), [warning]
    answered = documents["answered"].to_numpy(dtype=bool)
    since = np.full(len(documents), np.datetime64("NaT"), dtype="datetime64[ns]")
    if "answered_at" in documents:
        since = _times(documents["answered_at"])
    undated = int((answered & np.isnat(since)).sum())
    warnings = []
    if undated:
        warnings.append(
            f"{undated:,} answered documents have no date of an answer: they count as answered from the start"
        )
    return np.where(answered, np.where(np.isnat(since), ALWAYS, since), NEVER), warnings


def _times(values: pd.Series) -> np.ndarray:
    """Times in UTC, ``(N,)`` datetime64."""
    return pd.to_datetime(values, utc=True).dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")
