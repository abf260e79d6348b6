"""The parts of a backtest of the ranking of commits, on numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_history import DAY, START, changed, commit, hunk, links, tables

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Documents
from gedbd.localization.locating import locating_backtest
from gedbd.localization.locating.labelled_reports import labelled_reports, split_reports, without_merges
from gedbd.localization.locating.locating_backtest import (
    DEFAULT_LEARNED_FROM,
    by_year,
    default_was_trained_on,
    differences,
    learn_rankers,
    metrics,
    rank_candidates,
    run_replay,
)
from gedbd.localization.locating.tracker_ranker import HitRate, HitRates, read_statements

DAYS = ["01-01", "01-05", "01-10", "01-20", "02-01", "02-05"]  # of the commits
WORDS = ["alpha", "beta", "gamma", "alpha", "delta", "beta"]
REPORT_DAYS = ["01-04", "01-06", "01-11", "01-21", "01-30", "02-10"]
# Report, inducing commit, day of the fix. That of report 1 is not before it; report 3 was fixed late.
LINKS = [(0, 0, "01-05"), (1, 1, "01-10"), (1, 2, "01-10"), (2, 2, "02-05"), (4, 0, "02-01"), (4, 3, "02-05")]
FIXES = [(0, 1), (1, 2), (2, 5), (4, 4), (4, 5)]  # report and fixing commit


def dates(days):
    return pd.to_datetime([f"2024-{day}T00:00:00Z" for day in days]).astype("datetime64[us, UTC]")


@pytest.fixture
def corpus():
    """Six commits and six reports; reports 0, 1, 2 and 4 have inducing commits before them."""
    commits = []
    for number, (day, word, num_files) in enumerate(zip(dates(DAYS), WORDS, [1, 9, 2, 3, 4, 5], strict=True)):
        others = [changed(f"{other}.java") for other in range(1, num_files)]
        files = [changed("a.java", hunk(1, [f"+ {word}"])), *others]
        commits.append(commit(number, word, *files, day=(day - START) / DAY))
    reports = pd.DataFrame({"id": list("abcdef"), "title": ["alpha", "beta", "gamma", "x", "alpha", "y"]})
    reports = reports.assign(description="", created_at=dates(REPORT_DAYS), url="")
    inducing = links([pair for *pair, _ in LINKS], 6, 6, dates([day for *_, day in LINKS]))
    reports = Corpus.of_table("small", reports, np.arange(6))
    return ChangeCorpus("small", reports, *tables(commits)[:3], links(FIXES, 6, 6), {"commit": inducing})


def test_only_commits_strictly_before_the_report_count(corpus):
    labelled = labelled_reports(corpus)
    assert labelled.rows.tolist() == [0, 1, 2, 4]
    assert [rows.tolist() for rows in labelled.relevant] == [[0], [1], [2], [0, 3]]
    assert (labelled.num_reports, labelled.num_fixed, labelled.num_unordered) == (6, 4, 0)
    assert [f"{day:%m-%d}" for day in labelled.made_at] == ["01-05", "01-10", "02-05", "02-05"]
    at_once = corpus.reports.reports.assign(created_at=dates([DAYS[0], *REPORT_DAYS[1:]]))
    moved = replace(corpus, reports=Corpus.of_table("small", at_once, np.arange(6)))
    assert labelled_reports(moved).rows.tolist() == [1, 2, 4]
    assert labelled_reports(moved).num_unordered == 1


def test_the_older_half_is_learnt_from_as_far_as_it_was_known(corpus):
    labelled = labelled_reports(corpus)
    # The replay starts with report 2 on 01-11: the links of reports 0 and 1 are of 01-05 and 01-10.
    parts = split_reports(corpus, labelled, 4, 100)
    assert (parts.train.tolist(), parts.test.tolist(), parts.num_unknown) == ([0, 1], [2, 3], 0)
    late = replace(
        labelled, made_at=labelled.made_at.where([True, False, True, True], pd.Timestamp("2024-01-11", tz="UTC"))
    )
    parts = split_reports(corpus, late, 2, 100)
    assert (parts.num_labelled, parts.num_unknown) == (1, 1)
    unknown = replace(labelled, made_at=labelled.made_at.where([True, False, True, True]))
    assert split_reports(corpus, unknown, 2, 100).num_labelled == 1
    too_few = split_reports(corpus, late, 4, 100)
    assert (too_few.train.tolist(), too_few.test.tolist()) == ([], [0, 1, 2, 3])
    assert split_reports(corpus, labelled, 5, 2).test.tolist() == [0, 3]


def test_the_replay_gives_the_ranks_worked_out_by_hand(corpus):
    found = run_replay(corpus, target=0.5, min_reports=5, max_replayed=100, max_learnt=100, seed=0)
    ranks = found.commits.ranks.pivot(index="report", columns="system", values="rank")
    # Report 2 of 01-11 is after commits 0 to 2 with 1, 9 and 2 files: the inducing one, 2, has the second most.
    # Report 4 is after commits 0 to 3: of its inducing ones, 3 has the second most.
    assert ranks["number of changed files"].to_dict() == {0: 1, 1: 1, 2: 2, 4: 2}
    # The word of report 4 is in commits 0 and 3, which both induced it.
    assert ranks["BM25 over diffs"].to_dict() == {0: 1, 1: 1, 2: 1, 4: 1}
    assert (found.hit_rate.commits.hits, found.hit_rate.commits.reports, found.commits.system) == (
        4,
        4,
        "default ranker",
    )
    assert found.tables["right"]["report"].tolist()
    assert found.tables["years"].empty


def test_of_equal_scores_the_newer_commit_is_first():
    scores = np.random.default_rng(0).integers(0, 4, 50).astype(float)
    order = sorted(range(50), key=lambda row: (-scores[row], -row))
    for row in range(50):
        ranked = rank_candidates(np.arange(50), scores, np.array([row]), newest_first=True)
        assert (ranked["rank"], ranked["first"]) == (order.index(row) + 1, order[0])


def test_hit_rates_and_differences():
    replayed = pd.DataFrame(
        {"report": [0, 1, 2, 3] * 2, "system": ["a"] * 4 + ["b"] * 4, "rank": [1, 4, 10, 20, 2, 2, 11, 5]}
    )
    table = metrics(replayed, np.arange(4)).set_index("system")
    assert table.loc["a", ["hit@1", "hit@5", "hit@10"]].tolist() == [0.25, 0.5, 0.75]
    assert table.loc["a", "mrr"] == pytest.approx((1 + 1 / 4 + 1 / 10 + 1 / 20) / 4)
    # Exact interval of 3 of 4 (Clopper and Pearson), as tables give it
    assert table.loc["a", ["hit@10_low", "hit@10_high"]].tolist() == pytest.approx([0.1941, 0.9937], abs=1e-4)
    less = differences(replayed, "a", np.arange(4)).iloc[0]
    assert less["less"] == "b"
    assert less["difference of hit@10"] == 0.0
    assert less["difference of mrr"] == pytest.approx(table.loc["a", "mrr"] - table.loc["b", "mrr"])


def test_years_are_shown_when_two_have_enough_reports():
    days = pd.to_datetime(["2020-05-01"] * 10 + ["2021-05-01"] * 11, utc=True)
    reports = Corpus.of_table("small", pd.DataFrame({"id": range(21), "created_at": days}), np.arange(21))
    mine = pd.DataFrame({"report": range(21), "system": "a", "rank": [1] * 5 + [11] * 16})
    table = by_year(mine, reports)
    assert table[["year", "reports", "hit@10"]].to_numpy().tolist() == [["2020", 10, 0.5], ["2021", 11, 0.0]]
    assert by_year(mine.iloc[1:], reports).empty


FILES = HitRate("shop", 0.5, "met", 512, 415, 415 / 512, 0.776, 0.844, "2019-01-02", "2021-03-04", True)
COMMITS = HitRate("shop", 0.5, "met", 120, 73, 73 / 120, 0.52, 0.7, "2020-01-02", "2021-03-04", True)


def test_the_statement_about_files_comes_first():
    rates = HitRates(FILES, COMMITS)
    of_files, of_commits = FILES.statement("files"), COMMITS.statement("commits")
    assert read_statements(rates.as_json()) == rates.statements == f"{of_files} {of_commits}"
    assert "81% (95% interval 78% to 84%) of 512" in of_files
    assert "61% (95% interval 52% to 70%)" in of_commits
    assert of_commits.endswith("the target of 50% was met.")
    nothing = HitRate("shop", 0.5, "inconclusive")
    assert "no report with an earlier inducing commit" in nothing.statement("commits")
    few = HitRate("shop", 0.5, "inconclusive", 2, 1, 0.5, 0.1, 0.9, "x", "y")
    assert "neither clearly met nor missed" in few.statement("files")


def test_the_default_ranker_is_not_shown_on_a_history_that_it_has_learnt_from():
    first = DEFAULT_LEARNED_FROM[0]
    assert default_was_trained_on(["0" * 40, first])
    assert not default_was_trained_on(["0" * 40, first[:12]])


def test_rankers_are_trained_on_their_own_reports(monkeypatch):
    monkeypatch.setattr(locating_backtest, "fit_examples", lambda examples, options: examples)
    examples = dict(enumerate("abcde"))
    learned = learn_rankers(examples, np.array([0, 1, 2, 4]), np.array([0, 1]), np.array([], dtype=int), 0)
    assert (learned.commits, learned.files, learned.ranker) == (["a", "b"], None, ["a", "b", "c", "e"])


def history(merges):
    commits = pd.DataFrame({"id": list("abcde"), "commit": range(5), "is_merge": [row in merges for row in range(5)]})
    files = pd.DataFrame({"id": ["a:x", "b:x", "c:x", "c:y", "e:y"], "commit": [0, 1, 2, 2, 4]})
    hunks = pd.DataFrame({"id": ["a1", "b1", "c1", "c2", "e1"], "commit": [0, 1, 2, 2, 4], "file": [0, 1, 2, 3, 4]})
    tables = [Documents("small", table) for table in (commits, files, hunks)]
    inducing = {"commit": links([(0, 0), (0, 1), (1, 2)], 2, 5), "hunk": links([(0, 1), (1, 3)], 2, 5)}
    return ChangeCorpus("small", None, *tables, links([(0, 2), (1, 4)], 2, 5), inducing)


def test_rows_and_links_are_numbered_again():
    reduced, told = without_merges(history({1, 3}))
    assert reduced.commits.table["id"].tolist() == ["a", "c", "e"]
    assert reduced.commits.table["commit"].tolist() == [0, 1, 2]
    assert reduced.files.table["id"].tolist() == ["a:x", "c:x", "c:y", "e:y"]
    assert reduced.files.table["commit"].tolist() == [0, 1, 1, 2]
    assert reduced.hunks.table["file"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(reduced.fixing.pairs, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(reduced.inducing["commit"].pairs, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(reduced.inducing["hunk"].pairs, [[1], [2]])
    assert reduced.inducing["commit"].num_documents == 3
    assert told == (
        "merges are not candidates, as in gedbd locate: 2",
        "links to inducing commits that are merges, left out: 1",
    )
    kept = history(set())
    assert without_merges(kept) == (kept, ())
