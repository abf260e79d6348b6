"""Where files rank in a backtest, on a history whose ranks can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_history import changed, commit, hunk, links, tables

from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.change_training import Replay, history_of
from gedbd.localization.locating.labelled_reports import (
    file_reports,
    fixed_reports,
    sources_of_fixes,
    split_reports,
    with_all_links,
)
from gedbd.localization.locating.locating_backtest import (
    CONTROL,
    DEFAULT,
    RECENCY,
    names_file,
    rank_candidates,
    run_replay,
    shuffled_rows,
)

ALPHA, BETA, TEST, NOTES, GAMMA, DELTA = (
    "src/AlphaReader.java",
    "src/BetaReader.java",
    "src/AlphaTest.java",
    "notes.txt",
    "src/GammaReader.java",
    "src/Delta.java",
)
# Commit n is of day 2n + 2; those from 3 on fix reports 0 to 3.
COMMITS = [[ALPHA, BETA, TEST, NOTES], [BETA], [GAMMA], [ALPHA, TEST, NOTES], [BETA, GAMMA], [TEST], [DELTA]]
# Report 3 is fixed by a new file; of report 4 the data names files only, and nothing is known of report 5.
REPORT_DAYS = [7, 9, 11, 13, 17, 18]
TEXTS = ["AlphaReader stops", "Gamma fails", "beta", "delta", "org.demo.None of gamma and beta", "alpha"]


def days(numbers):
    return pd.to_datetime([f"2024-01-{day:02}T00:00:00Z" for day in numbers]).astype("datetime64[us, UTC]")


@pytest.fixture
def corpus():
    commits = []
    for number, paths in enumerate(COMMITS):
        files = [changed(path, hunk(1, [f"+{path[4:9].lower()} {number}"])) for path in paths]
        commits.append(commit(number, "Change", *files, day=2 * number + 1))
    reports = pd.DataFrame({"id": list("abcdef"), "title": TEXTS, "description": "", "url": ""})
    reports = Corpus.of_table("small", reports.assign(created_at=days(REPORT_DAYS)), np.arange(6))
    fixing = links([(report, 3 + report) for report in range(4)], 6, len(COMMITS))
    fixed_paths = {4: ("src/Gone.java", GAMMA, TEST)}
    return ChangeCorpus("small", reports, *tables(commits)[:3], fixing, fixed_paths=fixed_paths)


def reports_for_files(corpus):
    corpus = with_all_links(corpus)
    history = history_of(corpus)
    sources = sources_of_fixes(corpus, history)
    return corpus, history, file_reports(corpus, history, sources, fixed_reports(corpus).known_at)


def test_reports_whose_fix_changed_an_earlier_source_file_are_tested(corpus):
    _, history, reports = reports_for_files(corpus)
    assert reports.rows.tolist() == [0, 1, 4]  # neither the fix of a test nor the one that adds a file
    paths = history.table.paths
    assert [[paths[row] for row in rows] for rows in reports.relevant] == [[ALPHA], [BETA, GAMMA], [GAMMA]]
    assert reports.made_at.tolist() == list(days([8, 10, 17]))  # the last one is known at its own date
    assert (reports.num_reports, reports.num_fixed) == (6, 5)


def test_the_older_half_teaches_what_was_known_before_the_newer_half(corpus):
    corpus, history, reports = reports_for_files(corpus)
    parts = split_reports(corpus, reports, 2, 100)
    assert (parts.train.tolist(), parts.test.tolist(), parts.num_labelled) == ([0], [1, 2], 1)
    late = replace(reports, made_at=reports.made_at.where([False, True, True], days([9])[0]))
    assert split_reports(corpus, late, 2, 100).test.tolist() == [0, 1, 2]  # nothing is known before the report of day 9
    examples = Replay(corpus).examples([1, 4], sources_of_fixes(corpus, history))
    for row, place in ((1, 1), (4, 2)):
        files = examples[row].features.files.paths
        assert examples[row].is_fixed.tolist() == np.isin(files, reports.relevant[place]).tolist()
        assert examples[row].inducing.tolist() == []


def test_the_ranks_are_those_worked_out_by_hand(corpus):
    found = run_replay(corpus, target=0.5, min_reports=20, max_replayed=100, max_learnt=100, seed=0)
    recency = found.files.ranks[found.files.ranks["system"] == RECENCY].set_index("report")
    # Report 0 follows commits 0 to 2: gamma, beta, and of commit 0 alpha before its test.
    # Report 1 follows commit 3: alpha, its test, gamma, beta. Report 4: delta, the test, beta, gamma, alpha.
    assert recency["rank"].to_dict() == {0: 3, 1: 3, 4: 4}
    assert recency["average_precision"].to_dict() == pytest.approx({0: 1 / 3, 1: (1 / 3 + 2 / 4) / 2, 4: 1 / 4})
    assert recency["candidates"].to_dict() == {0: 4, 1: 4, 4: 5}
    shown = found.tables["files_metrics"].set_index("system")
    assert shown.index.tolist() == [DEFAULT, "BM25 over changes", RECENCY, CONTROL]
    assert list(shown)[:4] == ["reports", "mrr", "mrr_low", "mrr_high"]
    assert shown.loc[RECENCY, "mrr"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 4) / 3)
    assert shown.loc[RECENCY, "map"] == pytest.approx((1 / 3 + 5 / 12 + 1 / 4) / 3)
    assert shown.loc[RECENCY, ["hit@1", "hit@5"]].tolist() == [0, 1]
    counts = found.tables["files_counts"].set_index("what")["number"]
    assert counts["whose fix changed no earlier source file: not tested"] == 2
    assert counts["tested"] == 3
    # None has an inducing commit, which is said, and the default ranker is measured and kept.
    assert (found.hit_rate.commits.share, found.hit_rate.files.reports, found.files.system) == (None, 3, DEFAULT)
    assert "metrics" not in found.tables
    assert found.fixes == []


@pytest.mark.parametrize("seed", range(5))
def test_each_text_is_that_of_another_report(seed):
    places = np.array([3, 4, 6, 9])
    others = shuffled_rows(places, seed)
    assert sorted(others) == sorted(others.values()) == places.tolist()
    assert all(place != other for place, other in others.items())
    assert others == shuffled_rows(places, seed)
    assert shuffled_rows(places[:1], seed) == {}


def test_of_equal_scores_the_older_path_is_first_and_a_file_that_is_no_candidate_is_a_miss():
    paths = np.array([2, 5, 7, 8])
    scores = np.array([1.0, 3.0, 1.0, 1.0])
    found = rank_candidates(paths, scores, np.array([6, 7, 8]))  # 5 2 7 8, and 6 is not ranked
    assert (found["rank"], found["first"], found["found"], found["right"]) == (3, 5, 7, False)
    assert found["average_precision"] == pytest.approx((1 / 3 + 2 / 4) / 3)
    assert found["margin"] == 2
    missed = rank_candidates(paths, scores, np.array([6]))
    assert (missed["rank"], missed["average_precision"], missed["found"]) == (np.inf, 0, -1)
    nothing = np.empty(0, dtype=int)
    assert rank_candidates(nothing, nothing, np.array([6]))["first"] == -1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("AlphaReader fails", True),
        ("Delta fails", False),  # begins with a capital only
        ("in src.Delta it fails", False),  # one folder is no qualified name
        ("it fails\n  at src.Delta.run(Delta.java:3)", False),  # not there either
        ("it fails\n  at src.BetaReader.run(BetaReader.java:3)", True),
    ],
)
def test_which_reports_name_a_file(corpus, text, names):
    history = history_of(corpus)
    query = ChangeQuery(text, "", days([5])[0])
    assert names_file(history, query) == names


def test_the_parts_that_name_a_file_are_measured_apart(corpus):
    found = run_replay(corpus, 0.5, 20, 100, 100, 0)
    named = found.tables["files_named"]
    named = named[named["system"] == RECENCY].set_index("reports that")
    assert named["reports"].to_dict() == {"name a file": 1, "name no file": 2}
    assert named["mrr"].to_dict() == pytest.approx({"name a file": 1 / 3, "name no file": (1 / 3 + 1 / 4) / 2})
