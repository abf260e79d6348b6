from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.retrieval.ranking_tasks import EarlierReports, rank, ranking_metrics


@pytest.fixture
def write(tmp_path):
    """Ranks the reports of a corpus by scores, and writes and reads the run and the qrels."""

    def through(corpus, scores=None, window_days=None, ids=None, tag="tag"):
        size = len(corpus)
        queries = EarlierReports.find(corpus, np.ones(size, dtype=bool), window_days)
        ranking = rank(queries, PrecomputedScores(np.zeros((size, size)) if scores is None else scores))
        ids = corpus.reports["id"] if ids is None else ids
        write_run(tmp_path / "run", ranking, ids, tag)
        write_qrels(tmp_path / "qrels", queries, ids)
        run, qrels = ((tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("run", "qrels"))
        return ranking.queries, run, qrels

    return through


def parse_run(lines: list[str]) -> dict[str, list[tuple[int, str, float]]]:
    run = defaultdict(list)
    for line in lines:
        query, q0, report, place, score, _ = line.split(" ")
        assert q0 == "Q0"
        run[query].append((int(place), report, float(score)))
    return dict(run)


def parse_qrels(lines: list[str]) -> dict[str, set[str]]:
    relevant = defaultdict(set)
    for line in lines:
        query, zero, report, relevance = line.split(" ")
        assert (zero, relevance) == ("0", "1")
        relevant[query].add(report)
    return dict(relevant)


def first_hits(run: dict, relevant: dict) -> list[int]:
    """Place of the first relevant line of every query of the qrels when lines are sorted by score; 0 if there is none.

    Tools sort by score and disregard the column of places.
    """
    places = []
    for query, wanted in relevant.items():
        lines = sorted(run.get(query, []), key=lambda line: -line[2])
        places.append(next((place for place, line in enumerate(lines, 1) if line[1] in wanted), 0))
    return places


@pytest.fixture
def small(make_corpus):
    return make_corpus([0, 1, 0, 3, 1, 0], days=[0, 1, 8, 9, 10, 11])


def test_the_lines_worked_out_by_hand(small, write):
    scores = np.zeros((6, 6))
    scores[2, :2] = 0.25, 0.5
    scores[4, :4] = 0.5, 0.25, 0.125, -2
    scores[5, :5] = 0.25, 0.75, 0.5, 1 / 3, 1
    _, run, qrels = write(small, scores, tag="text + graph")
    assert run == [
        "1002 Q0 1001 1 1 text_+_graph",
        "1002 Q0 1000 2 0.5 text_+_graph",
        "1004 Q0 1000 1 1 text_+_graph",
        "1004 Q0 1001 2 0.5 text_+_graph",
        "1004 Q0 1003 3 0.333333333 text_+_graph",
        "1005 Q0 1004 1 1 text_+_graph",
        "1005 Q0 1002 2 0.5 text_+_graph",
        "1005 Q0 1003 3 0.333333333 text_+_graph",
    ]
    assert qrels == ["1002 0 1000 1", "1004 0 1001 1", "1005 0 1000 1", "1005 0 1002 1"]


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("seed", range(2))
def test_success_and_reciprocal_rank_of_the_files_are_those_of_the_ranking(make_corpus, write, seed, window):
    generator = np.random.default_rng(seed)
    _, first, inverse = np.unique(generator.integers(0, 70, size=150), return_index=True, return_inverse=True)
    corpus = make_corpus(first[inverse], days=np.sort(generator.uniform(0, 40, size=150)))
    queries, *lines = write(corpus, generator.normal(size=(150, 150)), window)
    run, relevant = parse_run(lines[0]), parse_qrels(lines[1])
    assert len(relevant) == len(queries)
    hits = first_hits(run, relevant)
    assert hits == queries["rank"].tolist()
    assert (0 in hits) == (window is not None)
    metrics = ranking_metrics(queries)
    assert np.mean([0 < place <= 10 for place in hits]) == pytest.approx(metrics["rr@10"])
    assert np.mean([1 / place if place else 0 for place in hits]) == pytest.approx(metrics["mrr"])
    for lines in run.values():
        assert [place for place, *_ in lines] == list(range(1, len(lines) + 1))


def test_quotes_in_ids_are_kept_and_blanks_become_underscores(small, write):
    _, run, qrels = write(small, ids=small.reports["id"] + '"')
    assert set(parse_run(run)) == set(parse_qrels(qrels)) == {'1002"', '1004"', '1005"'}
    ids = pd.Series(["BUG 1", "BUG\t2", "BUG 3", "BUG  4", "A-5", "Ä 6"])
    _, run, qrels = write(small, ids=ids, tag=" text\talone ")
    assert run[0] == "BUG_3 Q0 BUG_1 1 1 text_alone"
    assert all(len(line.split()) == 6 for line in run)
    assert [line.split()[2] for line in run[-3:]] == ["BUG_1", "BUG_2", "BUG_4"]
    assert qrels == ["BUG_3 0 BUG_1 1", "A-5 0 BUG_2 1", "Ä_6 0 BUG_1 1", "Ä_6 0 BUG_3 1"]
