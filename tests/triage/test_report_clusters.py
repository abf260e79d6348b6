"""The clusters of an index's open reports, and complete-link clustering of sparse pairs."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.triage.report_clusters import (
    MAX_CANDIDATES,
    LikelyPairs,
    cluster_pairs,
    complete_link,
    find_clusters,
    find_likely_pairs,
    read_backlog,
)
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore

CLOSED = {4, 7}
NUM_REPORTS = 20


@pytest.fixture
def folder(tmp_path, reader):
    """An index of twenty reports; 4 and 7 are closed; 3 and 13 are marked as duplicates, and so are 4 and 14."""
    reports = [some_report(number, status="open") for number in range(NUM_REPORTS)]
    for number in CLOSED:
        reports[number] = replace(reports[number], status="closed")
    group = np.arange(NUM_REPORTS)
    group[13], group[14] = 3, 4
    fill(tmp_path, as_corpus(reports, group), reader)
    return tmp_path


def clusters(folder, *pairs):
    """The clusters of pairs of a later report, an earlier one and their probability."""
    backlog = read_backlog(folder)
    later, earlier, probability = zip(*pairs, strict=True)
    return cluster_pairs(backlog, LikelyPairs(np.array(later), np.array(earlier), np.array(probability)))


def feedback(folder, report, candidate, verdict):
    with closing(FeedbackStore(folder)) as store:
        store.record(FeedbackEvent(Report(issue_id=str(report)), str(candidate), verdict, "web"))


def test_marked_duplicates_count_as_one_and_closed_reports_are_left_out(folder):
    found = clusters(folder, (6, 3, 0.6), (13, 6, 0.8), (9, 7, 0.9), (8, 5, 0.7), (15, 4, 0.75))
    largest, middle, smallest = found.clusters
    # 13 is marked as a duplicate of 3, so the pair 13 and 6 counts for 3 and 6.
    assert (largest.rows, largest.marked, largest.size) == ((3, 6), (1, 0), 3)
    assert largest.probability == (0.8,)
    # The original 4 is closed, but its duplicate 14 is open and stands for both.
    assert (middle.rows, middle.size, middle.lowest) == ((14, 15), 2, 0.75)
    assert smallest.rows == (5, 8)
    assert found.num_closed == 1


def test_a_third_report_that_is_like_one_of_two_only_is_left_out(folder):
    found = clusters(folder, (6, 5, 0.9), (8, 6, 0.8))
    assert [one.rows for one in found.clusters] == [(5, 6)]
    assert found.num_apart == 1


def test_rejected_pairs_are_left_out_and_accepted_ones_count_as_marked(folder):
    feedback(folder, 6, 5, "reject")
    feedback(folder, 8, 10, "accept")
    found = clusters(folder, (6, 5, 0.9), (8, 9, 0.8))
    assert found.num_rejected == 1
    (only,) = found.clusters
    assert (only.rows, only.marked) == ((8, 9), (1, 0))
    feedback(folder, 6, 5, "withdraw")
    assert len(clusters(folder, (6, 5, 0.9), (8, 9, 0.8)).clusters) == 2


def test_a_pair_has_the_probability_of_a_search_when_the_later_report_came_in(tmp_path, reader):
    reports = [some_report(number, status="new") for number in [*range(30), 81]]
    fill(tmp_path, as_corpus(reports), reader)
    backlog = read_backlog(tmp_path)
    pairs = find_likely_pairs(backlog.history, [30], backlog.model, 0.0)
    (tmp_path / "before").mkdir()
    fill(tmp_path / "before", as_corpus(reports[:30]), reader)
    index = open_folder(tmp_path / "before", reader)
    matches = index.search(reports[30], MAX_CANDIDATES)
    index.close()
    assert [one.best.issue_id for one in matches] == backlog.reports["id"].iloc[pairs.earlier].tolist()
    assert [one.probability for one in matches] == pytest.approx(pairs.probability.tolist(), abs=1e-12)
    (cluster,) = [one for one in find_clusters(backlog, matches[0].probability).clusters if 30 in one.rows]
    assert int(matches[0].best.issue_id) in cluster.rows


def test_an_index_without_its_model_is_refused(folder):
    with closing(IndexStore(folder / FILE)) as store, store.transaction():
        store.write_about({"matching": "{"})
    with pytest.raises(ValueError, match=r"matching.json is damaged: it is not JSON"):
        read_backlog(folder)


def test_an_index_whose_building_was_interrupted_is_refused(tmp_path):
    with closing(IndexStore(tmp_path / FILE)):
        pass
    with pytest.raises(ValueError, match="build it again"):
        read_backlog(tmp_path)


def test_no_chain_grows():
    # 1 is like 2 and like 3, but 2 and 3 are not alike: the more probable pair stays.
    assert complete_link([(1, 2), (3, 1)], [0.8, 0.9]) == [[1, 3]]
    # 4 joins them although its pair with 1 is the least probable: every pair is there.
    pairs = [(1, 3), (3, 4), (1, 4), (1, 2)]
    assert complete_link(pairs, [0.9, 0.8, 0.5, 0.7]) == [[1, 3, 4]]


@pytest.mark.parametrize("seed", range(10))
def test_the_clusters_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    one, other = np.triu_indices(int(rng.integers(2, 40)), 1)
    probability = rng.random(len(one))
    is_pair = probability > rng.uniform(0.1, 0.95)
    distance = np.where(is_pair, 1 - probability, 2.0)
    label = fcluster(linkage(distance, "complete"), 1.0, "distance")
    members = [np.flatnonzero(label == number).tolist() for number in np.unique(label)]
    pairs = list(zip(one[is_pair].tolist(), other[is_pair].tolist(), strict=True))
    assert complete_link(pairs, probability[is_pair].tolist()) == sorted(own for own in members if len(own) > 1)
