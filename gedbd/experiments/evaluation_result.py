"""What a run found out, before it is written and shown: of a trained model and its rivals, or of a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.evaluation.result_tables import WITH_GRAPH, WITHOUT_GRAPH
from gedbd.evaluation.threshold import best_threshold, score_grid
from gedbd.evaluation.tsne import map_reports
from gedbd.retrieval.ranking import Ranking, rank_all
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs, pair_scores
from gedbd.retrieval.tasks import RankingTask
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
        atlas: A 2-D map of reports with ids and titles, if there are vectors.
        title_cosines: Cosines of some pairs of titles, raw and reduced, if there is a graph.
    """

    corpus: Corpus
    parts: np.ndarray
    pairs: pd.DataFrame
    predictions: pd.DataFrame
    part: str
    methods: Mapping[str, str]
    threshold: float
    queries: Mapping[str, RankingTask] = field(default_factory=dict)
    rankings: Mapping[str, Mapping[str, Ranking]] = field(default_factory=dict)
    atlas: pd.DataFrame | None = None
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
    atlas = map_reports(*system.embedded, data.corpus.group, tested, system.seed)
    reports = data.corpus.reports.iloc[atlas.pop("row")]
    atlas = atlas.assign(id=reports["id"].to_numpy(), title=reports["title"].to_numpy())
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
        atlas=atlas,
        title_cosines=data.title_cosines,
    )


def evaluate_baseline(baseline: Scorer, name: str, prepared: PreparedData, part: str) -> EvaluationResult:
    """Fits a baseline, scores its validation pairs and those of the part, and ranks the part's queries.

    Its threshold is its own, if it has one, or the one with the best F1 on the validation pairs.
    """
    corpus, pairs = prepared.corpus, prepared.pairs
    baseline.fit(ScorerInputs.of_reports(corpus.reports, pairs[pairs["part"] == "train"]))
    chosen = pairs[pairs["part"].isin(("val", part))]
    scores = pair_scores(baseline, chosen["later"].to_numpy(), chosen["earlier"].to_numpy())
    predictions = name_reports(chosen.assign(score=scores), corpus, "earlier", "later")
    val = predictions[predictions["part"] == "val"]
    threshold = baseline.threshold
    if threshold is None:
        scores = val["score"].to_numpy()
        threshold = best_threshold(scores, val["label"].to_numpy(), score_grid(scores))
    queries = prepared.queries.get(part, {})
    rankings = rank_all(queries, {name: baseline})
    return EvaluationResult(
        corpus, prepared.parts, pairs, predictions, part, {name: "score"}, threshold, queries, rankings
    )
