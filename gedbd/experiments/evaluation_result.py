"""The result of a run before it is written and shown, and the evaluation of baselines and of report vectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.pairwise import GRID, best_threshold, score_grid
from gedbd.experiments.prepare import PreparedData
from gedbd.io.console import stage
from gedbd.retrieval.ranking_metrics import Ranking, rank_all
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, pair_scores


@dataclass(frozen=True)
class EvaluationResult:
    """The result of a run.

    Attributes:
        corpus: The reports.
        parts: ``(N,)`` part of each report.
        pairs: All pairs of the run.
        predictions: Scored pairs of ``val`` and of the reported part, with ids and titles.
        part: The part to report.
        methods: Column of scores of each method, by method id, see ``gedbd.evaluation.display_names``; the first method
            is the run's own.
        threshold: Score from which on the run calls a pair a duplicate.
        queries: The queries of the part, by protocol.
        rankings: Rankings of the queries, by protocol and method id.
        tsne: A t-SNE projection of reports with ids and titles, if there are vectors.
        title_cosines: Cosines of some pairs of titles, raw and reduced, if there is a graph.
        figures: Captions and figures, by name, that only this task has, such as ``tag_network``.
        own_name: Name of the run's own method for readers, where it is not that of its id.
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
    tsne: pd.DataFrame | None = None
    title_cosines: tuple[np.ndarray, np.ndarray] | None = None
    figures: Mapping[str, tuple[str, Figure]] = field(default_factory=dict)
    own_name: str | None = None

    def name_of(self, method: str) -> str:
        """Name of a method for readers."""
        is_own = method == next(iter(self.methods))
        return self.own_name if self.own_name and is_own else display_name(method)

    def with_names(self, table: pd.DataFrame) -> pd.DataFrame:
        """A copy of a table to show: its column ``method`` holds names for readers."""
        return table.assign(method=table["method"].map(self.name_of))


@stage("fit, score and rank")
def evaluate_baseline(baseline: Scorer, name: str, prepared: PreparedData, part: str) -> EvaluationResult:
    """Fits a baseline, scores the pairs of ``val`` and of a part, and ranks the part's queries.

    A baseline without a threshold of its own gets the one with the best F1 on the validation pairs.

    Args:
        baseline: The baseline.
        name: Its method id.
        prepared: Corpus, pairs and queries.
        part: The part to report.
    """
    corpus = prepared.corpus
    pairs = prepared.pairs
    baseline.fit(scorer_inputs(prepared, part))
    chosen = pairs[pairs["part"].isin(("val", part))]
    scores = pair_scores(baseline, chosen["later"].to_numpy(), chosen["earlier"].to_numpy())
    predictions = name_reports(chosen.assign(score=scores), corpus, "earlier", "later")
    val = predictions[predictions["part"] == "val"]
    threshold = baseline.threshold
    if threshold is None:
        scores = val["score"].to_numpy()
        grid = GRID if baseline.on_training_grid else score_grid(scores)
        threshold = best_threshold(scores, val["label"].to_numpy(), grid)
    queries = prepared.queries.get(part, {})
    return EvaluationResult(
        corpus=corpus,
        parts=prepared.parts,
        pairs=pairs,
        predictions=predictions,
        part=part,
        methods={name: "score"},
        threshold=threshold,
        queries=queries,
        rankings=rank_all(queries, {name: baseline}),
    )


def scorer_inputs(prepared: PreparedData, part: str) -> ScorerInputs:
    """What a baseline may learn from when a part is reported: nothing of this part but its reports and their links.

    Links that training may not see are left out.
    """
    pairs = prepared.pairs
    validation = pairs[pairs["part"] == "val"] if part == "test" else None
    links = None
    if prepared.corpus.links is not None:
        links = prepared.corpus.links.pairs
        first, second = prepared.observed_group[links]
        links = links[:, first == second]
    return ScorerInputs.of_reports(prepared.corpus.reports, pairs[pairs["part"] == "train"], validation, links)


def name_reports(table: pd.DataFrame, corpus: Corpus, first: str, second: str) -> pd.DataFrame:
    """Adds ids and titles of the reports whose row numbers are in the columns ``first`` and ``second``."""
    named = table.reset_index(drop=True)
    for number, column in enumerate((first, second), start=1):
        chosen = corpus.reports.iloc[named[column]]
        named[f"id_{number}"] = chosen["id"].to_numpy()
        named[f"title_{number}"] = chosen["title"].to_numpy()
    return named
