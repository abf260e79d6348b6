"""Rankings of two real dumps with nothing trained, against values that another program measured.

A query is every question with an earlier one in its group, its candidates are all earlier questions, and ranks count
groups. BM25 reads title, body and code; MiniLM reads title and body. With code at its place in
the body, its values for cs come out exactly; without it they differ by one or two queries of 212.
"""

from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from run_commands import composed
from small_reports import NO_PAIRS

from gedbd.corpora.templates import title_description
from gedbd.questions.stackexchange.reader import read_stackexchange
from gedbd.retrieval.ranking_tasks import EarlierReports, rank, ranking_metrics
from gedbd.retrieval.scorers.bm25 import Bm25
from gedbd.retrieval.scorers.dense_scorer import DenseScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

DUMPS = Path(__file__).parents[4] / "shared" / "data" / "stackexchange"  # beside the repository
WHOLE = 10**9  # characters
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DUMPS.is_dir(), reason=f"{DUMPS} is not here")]


def measured(site: str, scorer: Scorer, with_code: bool) -> tuple[int, list[float]]:
    """The number of queries, and RR@1, RR@10, RR@100 and MRR."""
    corpus = read_stackexchange(None, str(DUMPS / site))
    table = corpus.reports
    if with_code:
        table = table.assign(description=table["description"] + "\n" + table["code"])
    task = EarlierReports.find(corpus, np.ones(len(corpus), dtype=bool), top_k=(1, 10, 100))
    scorer.fit(ScorerInputs.of_reports(table, NO_PAIRS))
    metrics = ranking_metrics(rank(task, scorer).queries)
    return len(task), [metrics[name] for name in ("rr@1", "rr@10", "rr@100", "mrr")]


@pytest.mark.parametrize(
    ("site", "count", "expected"),
    [("cs", 212, [0.354, 0.590, 0.830, 0.434]), ("travel_until_2015_07", 716, [0.203, 0.528, 0.788, 0.308])],
)
def test_bm25_of_title_body_and_code(site, count, expected):
    assert measured(site, Bm25(max_characters=WHOLE), with_code=True) == (count, pytest.approx(expected, abs=0.0006))


@pytest.mark.parametrize(
    ("site", "count", "expected"),
    [("cs", 212, [0.434, 0.783, 0.958, 0.538]), ("travel_until_2015_07", 716, [0.388, 0.796, 0.947, 0.523])],
)
def test_frozen_minilm(site, count, expected, tmp_path):
    encoder = instantiate(composed("train", "encoder=minilm").encoder)
    scorer = DenseScorer(encoder, title_description, str(tmp_path))
    assert measured(site, scorer, with_code=False) == (count, pytest.approx(expected, abs=0.011))
