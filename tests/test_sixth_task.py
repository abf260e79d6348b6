"""A further task is new files only: here one that finds, for a bug report, the earlier changes that mended such bugs.

Queries (reports) and documents (changes) are two tables, relevance is links, and nothing in ``gedbd`` knows the task.
"""

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from gedbd.corpora.relevance import Links
from gedbd.evaluation.result_tables import compare_rankings
from gedbd.evaluation.significance import compare_means
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.retrieval.ranking_tasks import EarlierDocuments, per_query, protocol_metrics, rank_all
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NUM_REPORTS, NUM_CHANGES, NUM_TRAIN = 60, 90, 40
MODULES = ["parser", "index", "search", "printer", "calendar", "folder", "network", "theme", "reply"]
TASK = """
protocol: {_target_: gedbd.retrieval.ranking_tasks.EarlierDocuments, _partial_: true, top_k: [1, 5, 10]}
scorers:
  bm25: {_target_: gedbd.retrieval.scorers.bm25.Bm25}
  frozen:
    _target_: gedbd.retrieval.scorers.dense_scorer.DenseScorer
    encoder: {_target_: gedbd.encoders.loaded_encoder.load_tiny_encoder, name: tiny, pooling: mean, dim: 8,
      max_tokens: 32, hidden: 16, layers: 1, dropout: 0.0, seed: 0}
    text: {_target_: hydra.utils.get_method, path: gedbd.corpora.templates.title_description}
    cache_dir: CACHE
  learned_sum:
    _target_: gedbd.retrieval.linear_ranker.LinearRanker
    features:
      bm25: {_target_: gedbd.retrieval.scorers.bm25.Bm25, square_root: true}
      dense: ${scorers.frozen}
      recency: {_target_: gedbd.retrieval.scorers.simple_scorers.Recency}
"""


def texts_about(module: np.ndarray, days: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Rows in chronological order: a title that usually names the module, and words that say nothing."""
    noise = rng.choice(["crash", "slow", "fails", "wrong", "again", "often"], (len(module), 3))
    named = np.where(rng.random(len(module)) < 0.7, np.array(MODULES)[module], "program")
    created_at = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(days, unit="D")
    titles = [f"{name} {' '.join(words)}" for name, words in zip(named, noise, strict=True)]
    return pd.DataFrame({"title": titles, "description": "", "created_at": created_at})


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pd.DataFrame, Links]:
    """Reports, changes, and links from each report to the changes of its module."""
    rng = np.random.default_rng(0)
    modules = rng.integers(0, len(MODULES), NUM_REPORTS)
    changed = rng.integers(0, len(MODULES), NUM_CHANGES)
    reports = texts_about(modules, np.sort(rng.uniform(10, 100, NUM_REPORTS)), rng)
    changes = texts_about(changed, np.sort(rng.uniform(0, 100, NUM_CHANGES)), rng)
    query, document = np.nonzero(modules[:, None] == changed)
    table = pd.DataFrame({"query": query, "document": document, "source": "fixes", "made_at": pd.NaT})
    return reports, changes, Links(table, NUM_REPORTS, NUM_CHANGES)


@pytest.fixture(scope="module")
def inputs(data) -> ScorerInputs:
    reports, changes, links = data
    train = links.table[links.table["query"] < NUM_TRAIN].assign(label=1)
    return ScorerInputs(changes, reports, train)


@pytest.fixture(scope="module")
def task(inputs, data, tmp_path_factory):
    """The task's own configuration, with the ranking task of the reports that training has not seen."""
    folder = tmp_path_factory.mktemp("task")
    (folder / "task.yaml").write_text(TASK.replace("CACHE", str(folder / "cache")))
    config = instantiate(OmegaConf.load(folder / "task.yaml"), _convert_="object")
    queries = np.arange(NUM_TRAIN, NUM_REPORTS)
    return config["protocol"](queries, inputs.num_earlier[queries], data[2]), config["scorers"]


@pytest.fixture(scope="module")
def rankings(inputs, task):
    protocol, scorers = task
    for scorer in scorers.values():
        scorer.fit(inputs)
    return rank_all({protocol.name: protocol}, scorers)


def test_only_changes_before_the_report_are_candidates(data, task, rankings):
    reports, changes, links = data
    protocol, _ = task
    assert isinstance(protocol, EarlierDocuments)
    for line in rankings["earlier_documents"]["bm25"].top.itertuples():
        assert changes["created_at"][line.candidate] < reports["created_at"][line.query]
    relevant = protocol.relevant(3)
    expected = links.relevant(protocol.queries[3])
    assert set(relevant) == {row for row in expected if row < protocol.num_earlier[3]}


def test_the_learned_sum_ranks_better_than_a_random_encoder(rankings):
    names = ("bm25", "frozen", "learned_sum")
    mrr = {name: protocol_metrics(rankings, name)["earlier_documents_mrr"] for name in names}
    assert mrr["learned_sum"] > mrr["frozen"]
    assert mrr["bm25"] > mrr["frozen"]


def test_significance_and_a_report_section(rankings, tmp_path):
    by_method = rankings["earlier_documents"]
    queries = np.arange(NUM_REPORTS)  # every report is a cluster of its own
    table = compare_rankings(by_method, queries)
    assert table["queries"].tolist() == [NUM_REPORTS - NUM_TRAIN] * 3
    first, second = (per_query(by_method[name].queries)["mrr"].to_numpy() for name in ("bm25", "frozen"))
    comparison = compare_means(first, second, np.arange(len(first)))
    assert comparison.low < comparison.difference < comparison.high
    section = Section("From report to change", f"BM25 is ahead by {comparison.difference:.2f}.", [table])
    page = write_report(tmp_path, "Localisation", "A sixth task.", [section])
    assert "From report to change" in page.read_text()
    assert "learned_sum" in (tmp_path / "report.md").read_text()
