"""Nothing that came after a report is in its features."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_history import NUM_COMMITS, NUM_REPORTS

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Documents
from gedbd.corpora.relevance import Groups, Links
from gedbd.localization.change_ranking.change_training import fixes_of, history_of, query_of
from gedbd.localization.change_ranking.file_features import KnownFixes
from gedbd.localization.change_ranking.query_features import query_features


def until(corpus, moment) -> ChangeCorpus:
    """What a corpus was at a moment: commits and reports before it, and links that were known by then."""
    num_commits = int((corpus.commits.table["created_at"] < moment).sum())
    table = corpus.reports.documents.table
    reports = Documents("small", table[table["created_at"] < moment])
    dates = corpus.commits.table["created_at"]
    fixing = corpus.fixing.table
    known = fixing["query"][(dates.iloc[fixing["document"]] < moment).to_numpy()]

    def kept(all_links):
        chosen = all_links.table[all_links.table["query"].isin(known)].reset_index(drop=True)
        return Links(chosen, len(reports), num_commits)

    return replace(
        corpus,
        reports=Corpus(reports, Groups(np.arange(len(reports)))),
        commits=Documents("small", corpus.commits.table.iloc[:num_commits]),
        files=Documents("small", corpus.files.table[corpus.files.table["commit"] < num_commits]),
        fixing=kept(corpus.fixing),
        inducing={"commit": kept(corpus.inducing["commit"])},
    )


def test_nothing_after_a_report_changes_its_scores(corpus, trained):
    chosen, ranker = trained
    for row in (45, 20, 33, 8):  # not in order: what is kept of one query must not reach an earlier one
        query = query_of(corpus.reports.documents.table.iloc[row])
        early = until(corpus, query.created_at)
        history = history_of(early)
        fixes = KnownFixes(history, list(fixes_of(early).values()))
        assert 0 < len(fixes) < NUM_REPORTS
        first, second = query_features(history, query, fixes), query_features(chosen.history, query, chosen.fixes)
        for name, values in first.scores.items():
            np.testing.assert_array_equal(values, second.scores[name], err_msg=name)
        np.testing.assert_array_equal(first.files.features, second.files.features)
        scores = ranker.scores(history, query, fixes)
        np.testing.assert_array_equal(scores, ranker.scores(chosen.history, query, chosen.fixes))


@pytest.mark.parametrize("delay", ["3D", "0.4s", "0s"])
def test_the_fix_of_a_report_that_was_written_after_it_is_no_feature_of_its_own(corpus, trained, delay):
    row = 20
    table = corpus.reports.documents.table.copy()
    fixed = corpus.commits.table["created_at"].iloc[corpus.fixing.relevant(row)[0]]
    table.loc[row, "created_at"] = fixed + pd.Timedelta(delay)
    late = replace(corpus, reports=Corpus(Documents("small", table), Groups(np.arange(NUM_REPORTS))))
    query = query_of(table.iloc[row])
    history = history_of(late)
    others = replace(late, fixing=without(late.fixing, row), inducing={"commit": without(late.inducing["commit"], row)})
    first = query_features(history, query, KnownFixes(history, list(fixes_of(late).values())))
    second = query_features(history, query, KnownFixes(history, list(fixes_of(others).values())))
    np.testing.assert_array_equal(first.files.features, second.files.features)


def without(all_links, row) -> Links:
    kept = all_links.table[all_links.table["query"] != row].reset_index(drop=True)
    return Links(kept, NUM_REPORTS, NUM_COMMITS)
