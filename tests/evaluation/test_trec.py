from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.retrieval.ranking_tasks import EarlierReports
from gedbd.retrieval.scorers.scorer_contract import PrecomputedScores
from gedbd.retrieval.task_ranking import Ranking, rank, ranking_metrics


def ranked(corpus: Corpus, scores: np.ndarray, window_days: float | None = None) -> tuple[EarlierReports, Ranking]:
    queries = EarlierReports.find(corpus, np.ones(len(corpus), dtype=bool), window_days)
    return queries, rank(queries, PrecomputedScores(scores))


def read_run(path: Path) -> dict[str, list[tuple[int, str, float]]]:
    run = defaultdict(list)
    for line in path.read_text().splitlines():
        query, q0, report, place, score, _ = line.split(" ")
        assert q0 == "Q0"
        run[query].append((int(place), report, float(score)))
    return dict(run)


def read_qrels(path: Path) -> dict[str, set[str]]:
    relevant = defaultdict(set)
    for line in path.read_text().splitlines():
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


def test_the_lines_worked_out_by_hand(small, tmp_path):
    scores = np.zeros((6, 6))
    scores[2, :2] = 0.25, 0.5
    scores[4, :4] = 0.5, 0.25, 0.125, -2
    scores[5, :5] = 0.25, 0.75, 0.5, 1 / 3, 1
    queries, ranking = ranked(small, scores)
    write_run(tmp_path / "test.run", ranking, small.reports["id"], "text + graph")
    write_qrels(tmp_path / "test.qrels", queries, small.reports["id"])
    assert (tmp_path / "test.run").read_text().splitlines() == [
        "1002 Q0 1001 1 1 text_+_graph",
        "1002 Q0 1000 2 0.5 text_+_graph",
        "1004 Q0 1000 1 1 text_+_graph",
        "1004 Q0 1001 2 0.5 text_+_graph",
        "1004 Q0 1003 3 0.333333333 text_+_graph",
        "1005 Q0 1004 1 1 text_+_graph",
        "1005 Q0 1002 2 0.5 text_+_graph",
        "1005 Q0 1003 3 0.333333333 text_+_graph",
    ]
    assert (tmp_path / "test.qrels").read_text().splitlines() == [
        "1002 0 1000 1",
        "1004 0 1001 1",
        "1005 0 1000 1",
        "1005 0 1002 1",
    ]


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("seed", range(3))
def test_success_and_reciprocal_rank_of_the_files_are_those_of_the_ranking(make_corpus, tmp_path, seed, window):
    generator = np.random.default_rng(seed)
    _, first, inverse = np.unique(generator.integers(0, 70, size=150), return_index=True, return_inverse=True)
    corpus = make_corpus(first[inverse], days=np.sort(generator.uniform(0, 40, size=150)))
    queries, ranking = ranked(corpus, generator.normal(size=(150, 150)), window)
    write_run(tmp_path / "run", ranking, corpus.reports["id"], "bm25")
    write_qrels(tmp_path / "qrels", queries, corpus.reports["id"])
    run, relevant = read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels")

    assert len(relevant) == len(queries)
    hits = first_hits(run, relevant)
    assert hits == ranking.queries["rank"].tolist()
    assert (0 in hits) == (window is not None)
    metrics = ranking_metrics(ranking.queries)
    assert np.mean([0 < place <= 10 for place in hits]) == pytest.approx(metrics["rr@10"])
    assert np.mean([1 / place if place else 0 for place in hits]) == pytest.approx(metrics["mrr"])
    for lines in run.values():
        assert [place for place, *_ in lines] == list(range(1, len(lines) + 1))


def test_every_earlier_report_of_the_group_is_relevant_in_the_window_or_not(small, tmp_path):
    queries, ranking = ranked(small, np.zeros((6, 6)), window_days=3)
    write_run(tmp_path / "run", ranking, small.reports["id"], "tag")
    write_qrels(tmp_path / "qrels", queries, small.reports["id"])
    assert read_qrels(tmp_path / "qrels") == {"1002": {"1000"}, "1004": {"1001"}, "1005": {"1000", "1002"}}
    run = read_run(tmp_path / "run")
    assert set(run) == {"1004", "1005"}  # row 2 has no report in its window
    assert "1001" not in {report for _, report, _ in run["1004"]}


def test_equal_scores_leave_tools_no_choice(small, tmp_path):
    queries, ranking = ranked(small, np.zeros((6, 6)))
    write_run(tmp_path / "run", ranking, small.reports["id"], "tag")
    write_qrels(tmp_path / "qrels", queries, small.reports["id"])
    run = read_run(tmp_path / "run")
    for lines in run.values():
        assert len({score for *_, score in lines}) == len(lines)
    assert first_hits(run, read_qrels(tmp_path / "qrels")) == ranking.queries["rank"].tolist()


def test_quotes_in_ids_are_kept(small, tmp_path):
    ids = small.reports["id"] + '"'
    queries, ranking = ranked(small, np.zeros((6, 6)))
    write_run(tmp_path / "run", ranking, ids, "tag")
    write_qrels(tmp_path / "qrels", queries, ids)
    assert set(read_run(tmp_path / "run")) == set(read_qrels(tmp_path / "qrels")) == {'1002"', '1004"', '1005"'}


def test_nothing_ranked_nothing_written(make_corpus, tmp_path):
    corpus = make_corpus([0, 1])
    _, ranking = ranked(corpus, np.zeros((2, 2)))
    write_run(tmp_path / "run", ranking, corpus.reports["id"], "tag")
    assert (tmp_path / "run").read_text() == ""


def test_blanks_become_underscores(small, tmp_path):
    ids = pd.Series(["BUG 1", "BUG\t2", "BUG 3", "BUG  4", "A-5", "Ä 6"])
    queries, ranking = ranked(small, np.zeros((6, 6)))
    write_run(tmp_path / "run", ranking, ids, " text\talone ")
    write_qrels(tmp_path / "qrels", queries, ids)
    lines = (tmp_path / "run").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "BUG_3 Q0 BUG_1 1 1 text_alone"
    assert all(len(line.split()) == 6 for line in lines)
    assert [line.split()[2] for line in lines[-3:]] == ["BUG_1", "BUG_2", "BUG_4"]
    assert (tmp_path / "qrels").read_text(encoding="utf-8").splitlines() == [
        "BUG_3 0 BUG_1 1",
        "A-5 0 BUG_2 1",
        "Ä_6 0 BUG_1 1",
        "Ä_6 0 BUG_3 1",
    ]
