"""The clusters of an index's open reports."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.triage.clustering.backlog import (
    MAX_CANDIDATES,
    LikelyPairs,
    cluster_pairs,
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
    largest, middle, smallest = found.found
    # 13 is marked as a duplicate of 3, so the pair 13 and 6 counts for 3 and 6.
    assert (largest.rows, largest.marked, largest.size) == ((3, 6), (1, 0), 3)
    assert largest.probability == (0.8,)
    # The original 4 is closed, but its duplicate 14 is open and stands for both.
    assert (middle.rows, middle.size, middle.lowest) == ((14, 15), 2, 0.75)
    assert smallest.rows == (5, 8)
    assert found.num_closed == 1


def test_a_third_report_that_is_like_one_of_two_only_is_left_out(folder):
    found = clusters(folder, (6, 5, 0.9), (8, 6, 0.8))
    assert [one.rows for one in found.found] == [(5, 6)]
    assert found.num_apart == 1


def test_rejected_pairs_are_left_out_and_accepted_ones_count_as_marked(folder):
    feedback(folder, 6, 5, "reject")
    feedback(folder, 8, 10, "accept")
    found = clusters(folder, (6, 5, 0.9), (8, 9, 0.8))
    assert found.num_rejected == 1
    (only,) = found.found
    assert (only.rows, only.marked) == ((8, 9), (1, 0))
    feedback(folder, 6, 5, "withdraw")
    assert len(clusters(folder, (6, 5, 0.9), (8, 9, 0.8)).found) == 2


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
    (cluster,) = [one for one in find_clusters(backlog, matches[0].probability).found if 30 in one.rows]
    assert int(matches[0].best.issue_id) in cluster.rows


def test_a_tracker_that_does_not_say_what_is_open(tmp_path, reader):
    fill(tmp_path, as_corpus([some_report(number) for number in range(5)]), reader)
    backlog = read_backlog(tmp_path)
    assert (backlog.num_unknown, len(backlog.open_rows)) == (5, 5)


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
