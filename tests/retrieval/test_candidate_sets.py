import numpy as np
import pandas as pd
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from small_reports import PrecomputedScores

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import tags_of
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.retrieval.candidate_sets import find_candidate_sets
from gedbd.retrieval.ranking_tasks import rank

NUM = 150  # more than two blocks of queries
TINY = {"name": "tiny", "pooling": "mean", "dim": 8, "max_tokens": 32, "hidden": 16, "layers": 1, "dropout": 0.0}
WORDS = ["mount", "disk", "usb", "driver", "sound", "network", "panel", "kernel"]


@pytest.fixture(scope="module")
def encoder() -> LoadedEncoder:
    return load_tiny_encoder(**TINY, seed=0)


@pytest.fixture
def questions(make_corpus) -> Corpus:
    """Questions with up to three of eight tags, most of them answered; every second one is in a group."""
    generator = np.random.default_rng(0)
    group = np.arange(NUM)
    group[::2] = group[::2] % 10  # 0 2 4 6 8 0 2 ...: five groups, each named after its oldest question
    corpus = make_corpus(group, days=np.arange(NUM))
    table = corpus.reports
    names = [generator.choice(WORDS, generator.integers(0, 4), replace=False) for _ in range(NUM)]
    table["labels"] = [";".join(mine) for mine in names]
    table["title"] = [" ".join(generator.choice(WORDS, 3)) for _ in range(NUM)]
    table["answered"] = generator.random(NUM) < 0.8
    since = table["created_at"] + pd.to_timedelta(generator.exponential(20, NUM), unit="D")
    table["answered_at"] = since.where(generator.random(NUM) < 0.9)
    return corpus


def naive(corpus: Corpus, query: int, titles: np.ndarray, jaccard: float, cosine: float) -> list[int]:
    """The candidates of one query, document by document."""
    tags = [set(mine) for mine in tags_of(corpus.reports)]
    asked = corpus.reports["created_at"][query]
    found = []
    for row in range(query):
        shared = len(tags[row] & tags[query])
        if not shared or shared / len(tags[row] | tags[query]) <= jaccard:
            continue
        since = corpus.reports["answered_at"][row]
        if not corpus.reports["answered"][row] or (pd.notna(since) and since >= asked):
            continue
        if float(titles[query] @ titles[row]) >= cosine:
            found.append(row)
    return found


def test_candidates_are_those_of_a_double_loop(questions, encoder):
    wanted = np.arange(NUM) >= 10
    titles = encoder.encode(questions.reports["title"].tolist())
    cosine = float(np.quantile(titles @ titles.T, 0.4))
    task = find_candidate_sets(questions, wanted, min_jaccard=0.3, min_cosine=cosine, encoder=encoder)
    assert len(task) == 70 == len(task.candidate_sets)
    sizes = []
    for index, query in enumerate(task.queries):
        expected = naive(questions, query, titles, 0.3, cosine)
        assert task.candidates(index).tolist() == expected
        sizes.append(len(expected))
    assert 0 in sizes
    assert task.mean_candidates == pytest.approx(np.mean(sizes))
    assert f"{np.mean(sizes):,.0f} candidates per query on average" in task.warnings[-1]


def test_ranks_count_groups_of_earlier_documents_and_a_missed_duplicate_is_a_miss(make_corpus, encoder):
    corpus = make_corpus([0, 1, 0, 1, 0, 1], days=range(6))
    corpus.reports["component"] = ["a", "a", "a", "b", "a", "b"]
    corpus.reports["title"] = "the same"
    task = find_candidate_sets(corpus, np.arange(6) >= 3, encoder=encoder, top_k=(1, 2))
    assert task.queries.tolist() == [3, 4, 5]
    assert [task.candidates(index).tolist() for index in range(3)] == [[], [0, 1, 2], [3]]
    assert [task.relevant(index).tolist() for index in range(3)] == [[1], [0, 2], [1, 3]]  # none is later
    assert task.needed.tolist() == [0, 1, 2, 3, 4, 5]  # a query is encoded too
    scores = np.zeros((6, 6))
    scores[4, :3] = 0.1, 0.9, 0.2
    ranking = rank(task, PrecomputedScores(scores)).queries
    assert ranking["rank"].tolist() == [0, 2, 1]
    assert ranking["reachable"].tolist() == [False, True, True]
    assert "66.7% of 3 queries have a duplicate among them" in task.warnings[-1]


def test_what_a_corpus_lacks_is_left_out_and_said(make_corpus, encoder):
    corpus = make_corpus([0, 0, 0], days=range(3))
    corpus.reports["title"] = "the same"
    task = find_candidate_sets(corpus, np.ones(3, dtype=bool), encoder=encoder)
    assert [rows.tolist() for rows in task.candidate_sets] == [[0], [0, 1]]
    assert "all of them count as answered" in task.warnings[0]
    assert "the corpus has no tags" in task.warnings[1]
    corpus.reports["component"] = ["a", "", "a"]
    corpus.reports["answered"] = [True, False, True]
    task = find_candidate_sets(corpus, np.ones(3, dtype=bool), encoder=encoder)
    assert [rows.tolist() for rows in task.candidate_sets] == [[], [0]]
    assert "2 answered documents have no date of an answer" in task.warnings[0]
    assert task.warnings[1].startswith("1 of 2 queries have no tag")


def test_an_encoder_is_built_without_a_draw_of_random_numbers_and_only_for_queries(make_corpus, tmp_path):
    options = {"_target_": "gedbd.encoders.loaded_encoder.load_tiny_encoder", **TINY, "seed": 0}
    finder = instantiate(
        OmegaConf.create(
            {
                "_target_": "gedbd.retrieval.candidate_sets.find_candidate_sets",
                "_partial_": True,
                "_recursive_": False,
                "encoder": options,
                "cache_dir": str(tmp_path),
            }
        )
    )
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert len(finder(make_corpus([0, 1, 2]), np.ones(3, dtype=bool), top_k=(1,))) == 0
    assert not list(tmp_path.iterdir())
    assert len(finder(make_corpus([0, 0, 2]), np.ones(3, dtype=bool), top_k=(1,))) == 1
    assert torch.equal(torch.rand(1), expected)
