"""Rankers of reports: what they learn, their text, and the scorer that trains one."""

import json

import numpy as np
import pandas as pd
import pytest
from small_reports import hand_made, some_history, some_links, some_reports

from gedbd.retrieval.feature_ranker import WeightedFeatures
from gedbd.retrieval.report_ranking.candidate_features import FEATURES, candidate_features
from gedbd.retrieval.report_ranking.feature_store import TERM_KINDS, FeatureStore
from gedbd.retrieval.report_ranking.first_stage import QueryScores, find_candidates
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker
from gedbd.retrieval.report_ranking.report_scorer import LearntReports
from gedbd.retrieval.report_ranking.report_training import RankerOptions, Replayed, fit_ranker
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

QUICK = RankerOptions(rounds=15, num_seeds=1)
RULE = FEATURES.index("identifiers shared")


def examples(seed, count, rule=True, extra=0):
    """Queries with 20 candidates, some features of which are random; the right one has a high ``RULE``, or is any."""
    generator = np.random.default_rng(seed)
    found = []
    for row in range(count):
        features = np.zeros((20, len(FEATURES) + extra), dtype=np.float32)
        features[:, :5] = generator.normal(size=(20, 5))
        features[generator.random((20, len(features[0]))) < 0.05] = np.nan
        features[:, RULE] = generator.normal(size=20)
        right = np.zeros(20, dtype=bool)
        right[generator.integers(20)] = True
        features[right, RULE] += 4 * rule
        found.append(Replayed(row, np.arange(20), np.arange(20), features, right))
    return found


@pytest.fixture(scope="module")
def ranker():
    return fit_ranker(examples(0, 40), QUICK)


@pytest.mark.parametrize("kind", ["boosted", "linear"])
def test_a_planted_rule_is_learnt(kind, ranker):
    learnt = ranker if kind == "boosted" else fit_ranker(examples(0, 40), RankerOptions(kind="linear"))
    first = [bool(one.right[learnt.scores(one.features).argmax()]) for one in examples(1, 40)]
    assert np.mean(first) > 0.5  # of 20 candidates
    shares = learnt.contributions(examples(2, 1)[0].features)
    assert len(shares) == 20
    assert all(list(one) == list(FEATURES) for one in shares)
    scores = learnt.scores(examples(2, 1)[0].features)
    rest = [score - sum(one.values()) for score, one in zip(scores, shares, strict=True)]
    assert rest == pytest.approx([rest[0]] * 20, abs=1e-9)


def test_queries_without_a_right_candidate_teach_nothing(ranker):
    nothing = examples(0, 2)[0]._replace(right=np.zeros(20, dtype=bool))
    empty = Replayed(9, *(np.empty(0, dtype=np.int64),) * 2, np.empty((0, len(FEATURES))), np.empty(0, dtype=bool))
    assert fit_ranker([nothing, *examples(0, 40), empty], QUICK).to_text() == ranker.to_text()
    only_right = nothing._replace(right=np.ones(20, dtype=bool))
    for few in ([], [nothing], [empty], [only_right]):
        with pytest.raises(ValueError, match="needs a query with a duplicate among its candidates to learn from"):
            fit_ranker(few, QUICK)


@pytest.mark.parametrize("kind", ["boosted", "linear"])
def test_a_ranker_survives_its_text(kind, ranker):
    one = ranker if kind == "boosted" else ReportRanker(WeightedFeatures(np.arange(float(len(FEATURES)))))
    again = ReportRanker.from_text(one.to_text())
    assert again.to_text() == one.to_text()
    assert (again.model.kind, again.extra) == (kind, ())
    table = examples(4, 1)[0].features
    assert again.scores(table).tolist() == one.scores(table).tolist()
    assert again.scores(table[:0]).tolist() == []
    assert again.contributions(table[:0]) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda content: "no json",
        lambda content: "[" * 100_000,
        lambda content: content | {"format": 2},
        lambda content: content | {"model": content["model"][:-1]},
        lambda content: content | {"kind": "linear", "model": ['{"weights": [NaN]}']},
        lambda content: content | {"extra": ["llm"]},
        lambda content: content | {"features": content["features"][::-1]},
        lambda content: content | {"trained_on": [["a"]]},
        lambda content: {name: content[name] for name in content if name != "features"},
    ],
)
def test_damaged_text_is_refused_in_one_line(ranker, change):
    changed = change(json.loads(ranker.to_text()))
    text = changed if isinstance(changed, str) else json.dumps(changed)
    with pytest.raises(ValueError, match=r"ranker of reports: .*train it again") as error:
        ReportRanker.from_text(text)
    assert "\n" not in str(error.value)


class FixedVectors:
    """Vectors that are given, in the place of an encoder's."""

    warnings_ = ("a warning",)

    def __init__(self, vectors, to_learn_from=None):
        self.documents_ = vectors
        self.to_learn_from = to_learn_from or {}

    def vectors_to_learn_from(self, documents):
        return self.to_learn_from

    def fit(self, inputs):
        pass


def inputs_of(seed, count, **others):
    """Reports and pairs of the first 30 as training."""
    reports, vectors = some_reports(seed, count)
    later, earlier = some_links(seed, count)
    table = pd.DataFrame({"later": later, "earlier": earlier, "label": 1})
    train, rest = table[table["later"] < 30], table[table["later"] >= 30]
    return ScorerInputs.of_reports(reports, train, rest, **others), vectors


def test_a_learnt_scorer_gives_a_group_one_score_and_the_rest_lower_ones():
    inputs, vectors = inputs_of(0, 45)
    scorer = LearntReports(FixedVectors(vectors), kind="linear")
    scorer.fit(inputs)
    assert scorer.warnings_ == ("a warning",)
    found = scorer.scores(np.array([44, 20, 0]))
    assert found.shape == (3, 45)
    for scores, row in zip(found, (44, 20, 0), strict=True):
        assert np.isneginf(scores[row:]).all()
        (replayed,) = scorer.history_.replay_block([row])
        expected = scorer.ranker_.scores(replayed.features)
        assert scores[replayed.best] == pytest.approx(expected)
        for members in scorer.history_.find(row).members:
            assert len(set(scores[members].tolist())) == 1


def test_a_learnt_scorer_ranks_what_is_no_candidate_by_cosine_below_all_candidates(monkeypatch):
    inputs, vectors = inputs_of(1, 45)
    scorer = LearntReports(FixedVectors(vectors), kind="linear")
    scorer.fit(inputs)
    from gedbd.retrieval.report_ranking import first_stage

    monkeypatch.setattr(first_stage, "DEPTHS", dict.fromkeys(first_stage.DEPTHS, 3))
    (scores,) = scorer.scores(np.array([44]))
    candidates = np.concatenate(scorer.history_.find(44).members)
    others = np.setdiff1d(np.arange(44), candidates)
    assert len(others) > 10
    assert scores[others].max() < scores[candidates].min()
    assert np.argsort(scores[others]).tolist() == np.argsort(vectors[others] @ vectors[44]).tolist()


def learnt_from(scorer):
    """The queries that a scorer has been trained on."""
    return np.flatnonzero(scorer.history_.group < np.arange(len(scorer.history_)))


def test_a_learnt_scorer_reads_the_labels_it_is_given_alone():
    inputs, vectors = inputs_of(2, 45)
    both, alone = (LearntReports(FixedVectors(vectors), kind="linear") for _ in range(2))
    both.fit(inputs)
    hidden = ScorerInputs(inputs.documents, inputs.documents, inputs.train)  # as when validation is scored
    alone.fit(hidden)
    assert set(learnt_from(alone)) == set(inputs.train["query"])
    assert set(learnt_from(both)) == set(inputs.train["query"]) | set(inputs.validation["query"])
    assert alone.ranker_.to_text() != both.ranker_.to_text()
    # Without known links, those of the labels are the groups of candidates.
    assert alone.history_.known_before(45).group.tolist() == alone.history_.group.tolist()


@pytest.mark.parametrize("parts", [["train"], ["train", "val"]])
def test_what_a_trained_encoder_has_learnt_is_replayed_by_others(parts, monkeypatch):
    inputs, vectors = inputs_of(4, 45)
    others = {part: some_reports(77 + number, 45)[1] for number, part in enumerate(parts)}
    seen = {}

    def keep(examples, options):
        seen.update({one.row: one.features for one in examples})
        return fit_ranker(examples, options)

    monkeypatch.setattr("gedbd.retrieval.report_ranking.report_scorer.fit_ranker", keep)
    scorer = LearntReports(FixedVectors(vectors, others), kind="linear")
    scorer.fit(inputs)
    assert list(seen) == sorted(seen)
    train = set(inputs.train["query"])
    assert set(seen) == train | set(inputs.validation["query"])
    for row, features in seen.items():
        history = scorer.history_.with_vectors(others.get("train" if row in train else "val", vectors))
        np.testing.assert_array_equal(features, next(history.replay([row])).features)


@pytest.mark.parametrize("seed", range(2))
def test_a_replay_finds_what_a_search_of_the_earlier_reports_finds(seed):
    history = some_history(seed, 60)
    rows = [0, 1, 2, 30, 41, 59]
    replayed = history.replay_block(rows)
    assert [one.row for one in replayed] == rows
    for one in replayed:
        store = FeatureStore(history.features.vectors.shape[1])
        store.add(history.features.take(range(one.row)))
        found = find_candidates(QueryScores(store, history.features[one.row], history.known_before(one.row)))
        np.testing.assert_array_equal(one.best, found.row)
        np.testing.assert_array_equal(one.group, found.group)
        np.testing.assert_array_equal(one.features, candidate_features([found])[0])


def test_terms_of_a_report_are_told_apart_by_kind():
    features = hand_made(texts=["pasteTable crash", "crash"], identifiers=["error: in pasteTable", "pasteTable"])
    text, title, identifiers, errors = (features.terms[kind][0] for kind in TERM_KINDS)
    assert (len(text), len(title), len(identifiers), len(errors)) == (4, 2, 1, 2)
    assert not set(identifiers) & set(text)
    assert not set(errors) & set(text)
    for other in (features[1], features.take([0, 1])[1]):
        assert other.terms["identifiers"][0].tolist() == identifiers.tolist()
        assert len(other.terms["errors"][0]) == 0  # "pasteTable" alone says nothing of an error
    assert len(features) == 2
