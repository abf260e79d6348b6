"""The result of a test: the trained model, its text branch alone, and the untrained encoder."""

import numpy as np
import pandas as pd

from gedbd.corpora.splits import PARTS
from gedbd.evaluation.result_tables import WITH_GRAPH, WITHOUT_GRAPH
from gedbd.evaluation.tsne import project_reports
from gedbd.experiments.evaluation_result import EvaluationResult, name_reports
from gedbd.retrieval.ranking import Ranking, rank_all
from gedbd.retrieval.vectors import spread
from gedbd.tasks.duplicates.data import DuplicateDataModule
from gedbd.tasks.duplicates.system import DuplicateSystem


def evaluate_trained(data: DuplicateDataModule, system: DuplicateSystem) -> EvaluationResult:
    """The result of the system's last test; without a graph its only text branch is the model itself."""
    part = data.evaluated[-1]
    graph = data.title_graph
    figures = {}
    if graph is not None and graph.tag_network is not None:
        from gedbd.evaluation.tag_figure import CAPTION, tag_network  # here, as it imports networkx

        figures["tag_network"] = (CAPTION, tag_network(graph.tag_network))
    methods = WITHOUT_GRAPH if system.branch is None else WITH_GRAPH
    return EvaluationResult(
        corpus=data.corpus,
        parts=data.parts,
        pairs=data.pairs,
        predictions=name_reports(pd.concat(system.scores.values()), data.corpus, "earlier", "later"),
        part=part,
        methods=methods,
        threshold=round(float(system.threshold), 6),
        queries=data.queries.get(part, {}),
        rankings=_rankings(data, system, methods),
        tsne=_tsne(data, system),
        title_cosines=graph.title_cosines if graph else None,
        figures=figures,
    )


def _rankings(
    data: DuplicateDataModule, system: DuplicateSystem, methods: dict[str, str]
) -> dict[str, dict[str, Ranking]]:
    """Rankings by protocol and method."""
    assert data.frozen is not None
    queries = data.queries.get(data.evaluated[-1], {})
    untrained = rank_all(queries, {"score_frozen": spread(*data.frozen, len(data.corpus))})
    rankings = {}
    for protocol, trained in system.rankings.items():
        by_column = trained | untrained[protocol]
        rankings[protocol] = {method: by_column[column] for method, column in methods.items()}
    return rankings


def _tsne(data: DuplicateDataModule, system: DuplicateSystem) -> pd.DataFrame:
    """A t-SNE projection of the tested reports and their duplicates, with ids and titles."""
    assert system.embedded is not None
    part = data.evaluated[-1]
    if part in data.queries:
        tested = data.parts == PARTS.index(part)
    else:
        tested = np.isin(np.arange(len(data.parts)), system.embedded[0])
    projection = project_reports(*system.embedded, data.corpus.group, tested, system.seed)
    reports = data.corpus.reports.iloc[projection.pop("row")]
    return projection.assign(id=reports["id"].to_numpy(), title=reports["title"].to_numpy())
