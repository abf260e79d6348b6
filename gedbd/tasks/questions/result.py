"""The result of a test: the trained projection and the frozen vectors of title and body."""

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.evaluation.display_names import FROZEN
from gedbd.evaluation.tsne import project_reports
from gedbd.experiments.evaluation_result import EvaluationResult, name_reports
from gedbd.retrieval.ranking import rank_all
from gedbd.retrieval.scorers.cosine import VectorScorer
from gedbd.tasks.questions.data import QuestionsDataModule
from gedbd.tasks.questions.system import QuestionsSystem


def evaluate_trained(
    corpus: Corpus, data: QuestionsDataModule, system: QuestionsSystem, method: str
) -> EvaluationResult:
    """The result of the system's last test.

    Args:
        corpus: The questions.
        data: Their data.
        system: The tested system.
        method: Id of the trained method.
    """
    part = data.evaluated[-1]
    scored = pd.concat(system.scores.values())
    earlier = scored["earlier"].to_numpy()
    later = scored["later"].to_numpy()
    scored = scored.assign(score_frozen=(data.frozen[earlier] * data.frozen[later]).sum(axis=1))
    queries = data.queries.get(part, {})
    frozen = rank_all(queries, {FROZEN: VectorScorer(data.frozen)})
    rankings = {
        protocol: {method: trained["score"], FROZEN: frozen[protocol][FROZEN]}
        for protocol, trained in system.rankings.items()
    }
    return EvaluationResult(
        corpus=corpus,
        parts=data.parts,
        pairs=data.pairs,
        predictions=name_reports(scored.drop(columns="score_text"), corpus, "earlier", "later"),
        part=part,
        methods={method: "score", FROZEN: "score_frozen"},
        threshold=float(system.threshold),
        queries=queries,
        rankings=rankings,
        tsne=_tsne(corpus, data, system),
    )


def _tsne(corpus: Corpus, data: QuestionsDataModule, system: QuestionsSystem) -> pd.DataFrame:
    """A t-SNE projection of the tested questions and their duplicates, with ids and titles."""
    assert system.embedded is not None
    part = data.evaluated[-1]
    if part in data.queries:
        tested = data.parts == PARTS.index(part)
    else:
        tested = np.isin(np.arange(len(corpus)), system.embedded[0])
    projection = project_reports(*system.embedded, corpus.group, tested, data.seed)
    questions = corpus.reports.iloc[projection.pop("row")]
    return projection.assign(id=questions["id"].to_numpy(), title=questions["title"].to_numpy())
