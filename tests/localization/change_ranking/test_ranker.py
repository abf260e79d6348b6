"""Training of the ranker of changes, its texts, and what it answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_history import FAST, NUM_COMMITS, NUM_REPORTS, NUM_TRAIN, START, links
from small_reports import PrecomputedScores

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.change_ranker import CONTENT_FREE, ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import (
    ChangeRankerScorer,
    ChangeTrainingOptions,
    Replay,
    fit_examples,
    fixes_of,
    query_of,
)
from gedbd.localization.change_ranking.file_features import FILE_KINDS, FILE_SCORES
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.retrieval.scorers.bm25 import Bm25
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs


def mean_reciprocal_rank(corpus, scores) -> float:
    found = []
    for row in range(NUM_TRAIN, NUM_REPORTS):
        right = corpus.inducing["commit"].relevant(row)[0]
        values = scores(query_of(corpus.reports.documents.table.iloc[row]))
        found.append(1 / (values >= values[right]).sum())
    return float(np.mean(found))


def gain(corpus, ranker, history, *fixes) -> float:
    """By how much the MRR of a ranker is above that of BM25 over diffs."""
    bm25 = mean_reciprocal_rank(corpus, lambda query: query_features(history, query).scores["diff"])
    return mean_reciprocal_rank(corpus, lambda query: ranker.scores(history, query, *fixes)) - bm25


@pytest.mark.parametrize(("kind", "content_free"), [("boosted", True), ("linear", False)])
def test_it_learns(corpus, kind, content_free):
    replay = Replay(corpus)
    options = ChangeTrainingOptions(kind=kind, content_free=content_free, num_seeds=1, rounds=12)
    ranker = fit_examples(list(replay.examples(range(NUM_TRAIN)).values()), options)
    assert gain(corpus, ranker, replay.history, replay.fixes) > 0.2
    assert bool(CONTENT_FREE & set(ranker.names)) == content_free


def test_a_report_is_new_where_no_earlier_bug_named_its_commits(corpus):
    shared = replace(
        corpus, inducing={"commit": links(enumerate([5, *[6] * (NUM_REPORTS - 1)]), NUM_REPORTS, NUM_COMMITS)}
    )
    examples = Replay(shared).examples(range(NUM_REPORTS))
    first_known = min(fix.known_at for row, fix in fixes_of(shared).items() if row > 0)
    created_at = shared.reports.reports["created_at"]
    is_new = {row: example.is_new for row, example in examples.items()}
    assert is_new == {row: row == 0 or created_at[row] <= first_known for row in examples}
    assert not is_new[NUM_REPORTS - 1]


def test_commits_at_and_after_a_report_induced_nothing(corpus):
    before = 40  # of the first report
    pairs = links([(0, before - 1), (0, before), (0, before + 9)], NUM_REPORTS, NUM_COMMITS)
    assert Replay(replace(corpus, inducing={"commit": pairs})).examples([0])[0].inducing.tolist() == [before - 1]


def test_files_are_found_with_reasons(corpus, trained):
    replay, ranker = trained
    query = query_of(corpus.reports.documents.table.iloc[40])
    features = query_features(replay.history, query, replay.fixes)
    files = features.files
    found = ranker.find_files_in(features, 3)
    probability = ranker.file_probability(files)
    best = files.paths[np.lexsort((files.paths, -probability))][:3]
    assert [file.row for file in found] == best.tolist()
    name = query.title.partition(" ")[0]
    assert replay.history.table.paths[found[0].row] == f"src/net/{name}.java"
    assert found[0].probability == probability.max()
    assert set(found[0].contributions) == {*FILE_SCORES, *FILE_KINDS}
    allowed = np.ones(len(replay.history.table.paths), dtype=bool)
    allowed[found[0].row] = False
    assert [file.row for file in ranker.find_files_in(features, 2, allowed)] == best[1:].tolist()
    assert ranker.find_files_in(query_features(replay.history, ChangeQuery("", "")), 3) == []


def test_without_ownership_the_commits_are_ranked_by_what_the_text_says(corpus):
    replay = Replay(corpus)
    options = ChangeTrainingOptions(kind="linear", content_free=False, ownership=False)
    ranker = ChangeRanker.from_text(fit_examples(list(replay.examples(range(NUM_TRAIN)).values()), options).to_text())
    assert {"diff", "diff_rank", "newest_share", "touches_by_rank"} <= set(ranker.names)
    assert not any(name.startswith("lines") or name == "touches" for name in ranker.names)
    assert gain(corpus, ranker, replay.history, replay.fixes) > 0


def test_text_round_trip_and_determinism(corpus, trained):
    replay, ranker = trained
    again = fit_examples(list(Replay(corpus).examples(range(NUM_TRAIN)).values()), FAST)
    assert again.to_text() == ranker.to_text()
    stored = ChangeRanker.from_text(ranker.to_text())
    query = query_of(corpus.reports.documents.table.iloc[40])
    np.testing.assert_array_equal(
        stored.scores(replay.history, query, replay.fixes), ranker.scores(replay.history, query, replay.fixes)
    )
    assert stored.to_text() == ranker.to_text()


def test_suspects(corpus, trained):
    replay, ranker = trained
    query = query_of(corpus.reports.documents.table.iloc[40])
    scores = ranker.scores(replay.history, query, replay.fixes)
    suspects = ranker.find_in(query_features(replay.history, query, replay.fixes), 5)
    order = np.lexsort((-np.arange(len(scores)), -scores))[:5]
    assert [suspect.row for suspect in suspects] == order.tolist()
    assert [suspect.score for suspect in suspects] == pytest.approx(scores[order])
    constants = [suspect.score - sum(suspect.contributions.values()) for suspect in suspects]
    assert constants == pytest.approx([constants[0]] * 5)
    assert {"lines", "lines_by_rank", "touches", "diff", "age_days"} <= set(suspects[0].contributions)


def test_commits_outside_the_shortlist_come_last(corpus, trained, monkeypatch):
    replay, ranker = trained
    monkeypatch.setattr("gedbd.localization.change_ranking.query_features.LISTED_BY_FILES", 3)
    monkeypatch.setattr("gedbd.localization.change_ranking.query_features.LISTED_BY_WORDS", 2)
    query = query_of(corpus.reports.documents.table.iloc[40])
    scores = ranker.scores(replay.history, query, replay.fixes)
    listed = [suspect.row for suspect in ranker.find_in(query_features(replay.history, query, replay.fixes), 1000)]
    rest = np.setdiff1d(np.arange(len(scores)), listed)
    assert len(listed) <= 15
    assert scores[rest].max() < scores[listed].min()
    diff = query_features(replay.history, query).scores["diff"]
    assert (np.diff(scores[rest][np.argsort(diff[rest])]) >= 0).all()


def test_a_report_that_shares_nothing(trained):
    replay, ranker = trained
    query = query_of(pd.Series({"title": "", "description": "", "created_at": START}))
    assert ranker.scores(replay.history, query).shape == (0,)
    assert ranker.find_in(query_features(replay.history, query)) == []
    nothing = query_of(pd.Series({"title": "zzz", "description": "", "created_at": pd.NaT}))
    assert len(ranker.scores(replay.history, nothing)) == NUM_COMMITS


def test_extra_scores(corpus):
    told = np.zeros((NUM_REPORTS, NUM_COMMITS), dtype=np.float32)
    told[tuple(corpus.inducing["commit"].pairs)] = 1
    scorer = ChangeRankerScorer(Replay(corpus), options=FAST, extra={"oracle": PrecomputedScores(told)})
    scorer.fit(inputs_of(corpus))
    assert scorer.scores(np.array([45]))[0].argmax() == told[45].argmax()
    with pytest.raises(ValueError, match="'oracle'"):
        scorer.ranker_.scores(scorer.replay.history, query_of(corpus.reports.documents.table.iloc[45]))


@pytest.mark.parametrize("damage", ["", "[]", "{}", "bm25\n", '{"format": 1}'])
def test_damaged_text(damage):
    with pytest.raises(ValueError, match="train it again"):
        ChangeRanker.from_text(damage)


def test_nothing_to_learn_from(corpus):
    examples = Replay(corpus).examples(range(NUM_TRAIN)).values()
    with pytest.raises(ValueError, match="needs a report"):
        fit_examples([], FAST)
    with pytest.raises(ValueError, match="inducing commit"):
        fit_examples([example._replace(inducing=example.inducing[:0]) for example in examples], FAST)
    with pytest.raises(ValueError, match="needs reports with links"):
        Replay(ChangeCorpus("bare", None, corpus.commits, corpus.files, corpus.hunks)).examples([0])


def inputs_of(corpus) -> ScorerInputs:
    pairs = corpus.inducing["commit"].table
    train = pairs[pairs["query"] < NUM_TRAIN].assign(label=1)
    return ScorerInputs(corpus.commits.table, corpus.reports.documents.table, train)


def test_scorer_of_commits_files_and_hunks(corpus):
    inputs = inputs_of(corpus)
    rows = np.array([35, 44])
    scorer = ChangeRankerScorer(Replay(corpus), options=FAST)
    scorer.fit(inputs)
    commits = scorer.scores(rows)
    assert commits.shape == (2, NUM_COMMITS)
    before = inputs.num_earlier[35]
    expected = scorer.ranker_.scores(scorer.replay.history, query_of(inputs.queries.iloc[35]), scorer.replay.fixes)
    np.testing.assert_array_equal(commits[0, :before], expected)
    assert commits[0, before:].max() < commits[0, :before].min()
    by_file = ChangeRankerScorer(scorer.replay, "file", FAST)
    by_file.fit(inputs)
    # Each commit changed one file: a file's score is at most its commit's, and 7 less at least.
    gap = commits[0, :before] - by_file.scores(rows)[0, :before]
    assert gap.min() >= -np.log(1 + 1e-3)
    assert gap.max() <= -np.log(1e-3) + 1e-6
    by_hunk = ChangeRankerScorer(scorer.replay, "hunk", FAST, parts=Bm25())
    by_hunk.fit(ScorerInputs(corpus.hunks.table, inputs.queries, inputs.train))
    hunks = by_hunk.scores(rows)
    assert hunks.shape == (2, len(corpus.hunks.table))
    assert np.isfinite(hunks).all()
    with pytest.raises(ValueError, match="parts="):
        ChangeRankerScorer(scorer.replay, "hunk")


def test_default_ranker(corpus):
    ranker = default_ranker()
    assert len(ranker.to_text()) < 400_000
    history = Replay(corpus).history
    assert gain(corpus, ranker, history) > 0
