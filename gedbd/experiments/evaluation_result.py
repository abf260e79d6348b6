"""What a run found out, before it is written and shown: of a trained model and its rivals, or of a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from rich.progress import track

from gedbd.corpora.documents import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.evaluation.result_tables import WITH_GRAPH, WITHOUT_GRAPH
from gedbd.evaluation.threshold import best_threshold, score_grid
from gedbd.evaluation.tsne import project_reports
from gedbd.retrieval.ranking import BLOCK, Ranking, Scorer, rank_all
from gedbd.retrieval.scorers import Baseline
from gedbd.retrieval.tasks import Queries
from gedbd.retrieval.vectors import spread
from gedbd.tasks.duplicates.data import DuplicateDataModule, name_reports
from gedbd.tasks.duplicates.factory import PreparedData
from gedbd.tasks.duplicates.system import DuplicateSystem


@dataclass(frozen=True)
class EvaluationResult:
    """What a run found out.

    Attributes:
        corpus: The reports.
        parts: ``(N,)`` part of each report.
        pairs: All pairs of the run.
        predictions: Scored pairs of ``val`` and of the part to report, with ids and titles.
        part: That part.
        methods: Column of each method's scores; the first method is the run's own.
        threshold: From which score on the run calls a pair duplicate.
        queries: What was ranked of the part, by protocol.
        rankings: By protocol and method.
        tsne: The t-SNE projection of reports with ids and titles, if there are vectors.
        title_cosines: Cosines of some pairs of titles, raw and reduced, if there is a graph.
    """

    corpus: Corpus
    parts: np.ndarray
    pairs: pd.DataFrame
    predictions: pd.DataFrame
    part: str
    methods: Mapping[str, str]
    threshold: float
    queries: Mapping[str, Queries] = field(default_factory=dict)
    rankings: Mapping[str, Mapping[str, Ranking]] = field(default_factory=dict)
    tsne: pd.DataFrame | None = None
    title_cosines: tuple[np.ndarray, np.ndarray] | None = None


def evaluate_trained(data: DuplicateDataModule, system: DuplicateSystem) -> EvaluationResult:
    """What a test has just found out about a trained model, its text branch and the untrained encoder."""
    part, methods = data.evaluated[-1], WITHOUT_GRAPH if system.branch is None else WITH_GRAPH
    predictions = name_reports(pd.concat(system.scores.values()), data.corpus, "earlier", "later")
    assert system.embedded is not None
    assert data.frozen is not None
    queries, rankings = data.queries.get(part, {}), {}
    untrained = rank_all(queries, {"score_frozen": spread(*data.frozen, len(data.corpus))})
    for protocol, trained in system.rankings[part].items():
        by_column = trained | untrained[protocol]
        rankings[protocol] = {name: by_column[column] for name, column in methods.items()}
    everything = np.arange(len(data.parts))
    tested = data.parts == PARTS.index(part) if queries else np.isin(everything, system.embedded[0])
    tsne = project_reports(*system.embedded, data.corpus.group, tested, system.seed)
    reports = data.corpus.reports.iloc[tsne.pop("row")]
    tsne = tsne.assign(issue_id=reports["issue_id"].to_numpy(), title=reports["title"].to_numpy())
    threshold = round(float(system.threshold), 6)
    return EvaluationResult(
        corpus=data.corpus,
        parts=data.parts,
        pairs=data.pairs,
        predictions=predictions,
        part=part,
        methods=methods,
        threshold=threshold,
        queries=queries,
        rankings=rankings,
        tsne=tsne,
        title_cosines=data.title_cosines,
    )


def evaluate_baseline(baseline: Baseline, name: str, prepared: PreparedData, part: str) -> EvaluationResult:
    """Fits a baseline, scores its validation pairs and those of the part, and ranks the part's queries.

    Its threshold is its own, if it has one, or the one with the best F1 on the validation pairs.
    """
    corpus, pairs = prepared.corpus, prepared.pairs
    baseline.fit(corpus, pairs[pairs["part"] == "train"])
    chosen = pairs[pairs["part"].isin(("val", part))]
    predictions = name_reports(chosen.assign(score=score_pairs(baseline, chosen)), corpus, "earlier", "later")
    val = predictions[predictions["part"] == "val"]
    threshold = getattr(baseline, "threshold", None)
    if threshold is None:
        scores = val["score"].to_numpy()
        threshold = best_threshold(scores, val["label"].to_numpy(), score_grid(scores))
    queries = prepared.queries.get(part, {})
    rankings = rank_all(queries, {name: baseline})
    return EvaluationResult(
        corpus, prepared.parts, pairs, predictions, part, {name: "score"}, threshold, queries, rankings
    )


def score_pairs(scorer: Scorer, pairs: pd.DataFrame) -> np.ndarray:
    """The later report of each pair as the query, the earlier one as its candidate, ``(P,)`` float32.

    A baseline that would have to rank for it may have a ``score_pairs`` of its own.
    """
    own = getattr(scorer, "score_pairs", None)
    if own is not None:
        return np.asarray(own(pairs["earlier"].to_numpy(), pairs["later"].to_numpy()))
    later, place = np.unique(pairs["later"].to_numpy(), return_inverse=True)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(0, len(later) + BLOCK, BLOCK))
    earlier, scores = pairs["earlier"].to_numpy(), np.empty(len(pairs), dtype=np.float32)
    blocks = range(0, len(later), BLOCK)
    for number, start in enumerate(track(blocks, "score pairs", transient=True, disable=len(blocks) < 10)):
        mine = order[ends[number] : ends[number + 1]]
        scores[mine] = scorer(later[start : start + BLOCK])[place[mine] - start, earlier[mine]]
    return scores
