import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from gedbd.corpora.corpus import ChangeCorpus, Documents
from gedbd.corpora.relevance import Groups
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.pairs_export import _candidates
from gedbd.experiments.prepare import check_ranking, ranking_queries, ranks_later
from gedbd.retrieval.ranking_tasks import CandidateSets, EarlierReports, ReportPool

EARLIER = {"_target_": "gedbd.retrieval.ranking_tasks.EarlierReports.find", "_partial_": True}
POOL = {"_target_": "gedbd.retrieval.ranking_tasks.ReportPool.find", "_partial_": True}
VALID = {"parts": ["test"], "protocols": {"earlier": EARLIER}, "top_k": [1, 5]}


def warned(corpus, wanted, *, top_k):
    """A finder that has the same to say about each part, and counts its queries."""
    queries = np.flatnonzero(wanted)
    warnings = ("no dates", f"{len(queries)} queries")
    return CandidateSets(queries, [queries] * len(queries), corpus.relevance, top_k, warnings=warnings)


def test_each_protocol_finds_the_queries_of_each_part(make_corpus):
    corpus = make_corpus([0, 0, 0, 3, 3, 5])
    parts = np.array([0, 0, 1, 2, 2, 2])
    finders = {"earlier": EarlierReports.find, "pool": ReportPool.find}
    queries, warnings = ranking_queries(corpus, parts, ["val", "test"], finders, (1, 5))
    assert {part: list(by_protocol) for part, by_protocol in queries.items()} == {
        "val": ["earlier"],
        "test": ["earlier", "pool"],
    }
    assert queries["test"]["pool"].queries.tolist() == [3, 4]
    assert queries["test"]["earlier"].top_k == (1, 5)
    assert warnings == ["no report of part val has a duplicate in it for protocol=test_pool, so nothing is ranked"]


def test_a_warning_that_holds_for_several_parts_is_told_once(make_corpus):
    parts = np.array([0, 1, 2, 2])
    _, warnings = ranking_queries(make_corpus([0, 1, 2, 3]), parts, ["val", "test"], {"own": warned}, (1,))
    assert warnings == ["val and test: no dates", "val: 1 queries", "test: 2 queries"]


def test_a_pool_ranks_later_reports_and_other_protocols_do_not():
    assert ranks_later(OmegaConf.create(POOL))
    assert not ranks_later(OmegaConf.create(EARLIER))
    assert not ranks_later(OmegaConf.create({"_target_": "gedbd.retrieval.candidate_sets.find_candidate_sets"}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parts": ["dev"]}, r"ranking.parts=\['dev'\]: dev is unknown: choose train, val, test"),
        ({"parts": "test"}, r"ranking.parts=test must be auto or a list, such as \[val,test\]"),
        ({"protocols": ["earlier"]}, "must name a _target_ for each protocol: choose protocol=..."),
        ({"protocols": {"earlier": {"window_days": 3}}}, "must name a _target_ for each protocol"),
        ({"top_k": [5, 1]}, r"ranking.top_k=\[5, 1\] must be one or more whole numbers"),
    ],
)
def test_an_invalid_section_is_refused(changed, message):
    check_ranking(OmegaConf.create(VALID))
    check_ranking(OmegaConf.create(VALID | {"parts": "auto"}))
    with pytest.raises(ValueError, match=message):
        check_ranking(OmegaConf.create(VALID | changed))


def make_changes():  # without an annotation
    tables = [Documents("demo", pd.DataFrame({"id": [], "created_at": []})) for _ in range(3)]
    return ChangeCorpus("demo", None, *tables)


def make_other_changes(path) -> ChangeCorpus:
    raise AssertionError("nothing is read")


@pytest.mark.parametrize(
    ("name", "options", "place"),
    [
        ("make_changes", {}, "make_changes"),
        ("make_other_changes", {}, "make_other_changes"),
        ("make_other_changes", {"path": "repo/"}, "repo/"),
    ],
)
def test_a_history_is_refused_whether_its_function_says_so_or_not(name, options, place):
    with pytest.raises(ValueError, match=f"{place}: this is a history of changes, but this command needs a table"):
        read_corpus(OmegaConf.create({"_target_": f"{__name__}.{name}"} | options))


GROUP = [0, 1, 0, 3, 1, 0, 6, 3]


def tasks(corpus):
    chosen = np.isin(np.arange(len(GROUP)), [2, 4, 5, 7])
    yield EarlierReports.find(corpus, chosen)
    yield EarlierReports.find(corpus, chosen, window_days=3)
    yield ReportPool.find(corpus, chosen)
    sets = [np.array([0, 1, 3]), np.array([], dtype=np.int64), np.array([2, 5])]
    yield CandidateSets(np.array([4, 5, 7]), sets, Groups(corpus.group), group=corpus.group)


@pytest.mark.parametrize("place", range(4))
def test_ranges_hold_the_candidates(make_corpus, place):
    task = list(tasks(make_corpus(GROUP, days=range(len(GROUP)))))[place]
    names = np.array([f"B-{row}" for row in task.queries], dtype=object)
    ranges = _candidates(task, names)
    assert len(task) >= 2
    for index, name in enumerate(names):
        own = ranges[ranges["id"] == name]
        found = [row for start, stop in zip(own["start"], own["stop"], strict=True) for row in range(start, stop)]
        assert found == task.candidates(index).tolist()
