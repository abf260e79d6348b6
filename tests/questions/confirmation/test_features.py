"""Features by hand, and the proof that none reads what happened after the question."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.fields import tags_of
from gedbd.questions.confirmation.anchors import PairDocuments, find_anchors, pair_features, question_features

PLACE = 49  # of the anchor that is looked at: report 200
MOMENT = pd.Timestamp("2024-01-01", tz="UTC") + pd.Timedelta(hours=200 * 8)


@pytest.fixture(scope="module")
def data(waiting_corpus):
    anchors, _ = find_anchors(waiting_corpus, 1)
    titles = np.random.default_rng(1).normal(size=(len(waiting_corpus), 8)).astype(np.float32)
    return PairDocuments(waiting_corpus.reports, tags_of(waiting_corpus.reports), titles), anchors


def both_sets(documents, anchors):
    """Both sets beside each other; the text vectors of pair are those of the titles."""
    ends = [np.tile(documents.titles[anchors[name]], 2) for name in ("anchor", "master")]
    question = question_features(documents, anchors, ("component",))
    return pd.concat([question, pair_features(documents, anchors, *ends)], axis=1)


def test_nothing_after_the_question_changes_its_features(data):
    documents, anchors = data
    before = both_sets(documents, anchors)
    table = documents.table.copy()
    later = np.arange(len(documents.table)) > 200
    for name, value in (("title", "changed"), ("description", "longer than before " * 9), ("component", "new")):
        table.loc[later, name] = value
    table["status"] = "RESOLVED"
    table["resolution"] = "DUPLICATE"
    unresolved = ~(table["resolved_at"] < MOMENT)
    assert 0 < unresolved[:200].sum() < 200
    moved = table["created_at"] + pd.Timedelta(days=400)
    table["resolved_at"] = table["resolved_at"].mask(unresolved, moved.where(table.index % 2 == 0))
    # A link that was not made when report 200 was created may be made at any later time, or never; so may its own.
    future = anchors["made_at"] >= MOMENT
    assert 0 < future[:PLACE].sum() < PLACE
    changed = anchors.assign(
        made_at=anchors["made_at"].mask(future, anchors["made_at"] + pd.Timedelta(days=50)),
        target=anchors["target"].mask(future, -9.0),
    )
    titles = np.where(later[:, None], 7, documents.titles)
    kept = ~(future & (anchors["anchor"] > 300))
    changed = changed[kept].reset_index(drop=True)
    after = both_sets(PairDocuments(table, tags_of(table), titles), changed)
    assert anchors["anchor"][PLACE] == 200
    np.testing.assert_array_equal(after.loc[:PLACE].to_numpy()[-1], before.loc[PLACE].to_numpy())
    assert not np.array_equal(after.loc[PLACE + 9].to_numpy(), before.loc[PLACE + 9].to_numpy())


def test_features_by_hand(data):
    documents, anchors = data
    row = question_features(documents, anchors, ("component",)).loc[PLACE]
    known = anchors[anchors["made_at"] < MOMENT]
    assert row["median_of_last_10_links"] == np.median(known.sort_values("made_at")["target"].iloc[-10:])
    assert row["links_in_7_days"] == (known["made_at"] >= MOMENT - pd.Timedelta(days=7)).sum()
    assert row["documents_in_7_days"] == 21
    assert (row["hour"], row["weekday"]) == (16, MOMENT.weekday())
    component = documents.table["component"]
    assert row["same_tag_documents_in_30_days"] == (component[110:200] == component[200]).sum()
    same = known[component[known["anchor"]].to_numpy() == component[200]]
    assert row["links_of_tags"] == len(same)
    unit = documents.titles / np.linalg.norm(documents.titles, axis=1, keepdims=True)
    assert row["nearest_cosine"] == pytest.approx((unit[:200] @ unit[200]).max())


def test_pairs_by_hand(data):
    documents, anchors = data
    text = np.array([[1.0, 0, 0, 2]] * len(anchors))
    master = np.array([[3.0, 4, 1, 0]] * len(anchors))
    row = pair_features(documents, anchors, text, master).loc[PLACE]
    assert row["title_cosine"] == pytest.approx(0.6)
    assert row["body_cosine"] == 0
    assert row["age_of_master"] == pytest.approx(np.log10(24))
    component = documents.table["component"]
    assert row["tag_overlap"] == (component[200] == component[197])
    unit = documents.titles / np.linalg.norm(documents.titles, axis=1, keepdims=True)
    cosines = unit[:200] @ unit[200]
    assert (row["documents_since_master"], row["rank_of_master"]) == (3, (cosines > cosines[197]).sum())
    assert row["master_resolved"] == (documents.table["resolved_at"][197] < MOMENT)


def test_the_first_document_has_no_history(data):
    documents, anchors = data
    first = anchors.head(1).assign(anchor=0)
    row = question_features(documents, first).loc[0]
    assert row[["median_of_last_10_links", "nearest_cosine", "neighbours_hours"]].isna().all()
    assert row["documents_in_30_days"] == 0
