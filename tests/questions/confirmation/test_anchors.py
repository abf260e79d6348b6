"""Targets and features by hand, what is left out and counted, and the proof that nothing reads a later moment."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus, Documents
from gedbd.corpora.fields import tags_of
from gedbd.corpora.relevance import Groups, Links
from gedbd.questions.confirmation.anchors import (
    PairDocuments,
    assemble,
    find_anchors,
    known_before,
    pair_features,
    question_features,
)
from gedbd.questions.confirmation.link_history import Resolutions, log_hours

START = pd.Timestamp("2024-01-01", tz="UTC")
LINKS = [  # query, document, hours from the start of the table to the link
    (2, 0, 102),  # anchor 2, created at hour 2: 100 hours
    (2, 1, 202),  # a later link of anchor 2
    (1, 3, 13),  # the marked question is the older one: anchor 3, created at hour 3, after 10 hours
    (4, 0, 1),  # made before anchor 4 was created
    (5, 0, None),  # not dated
    (6, 5, 6.001),  # 3.6 seconds
]


@pytest.fixture
def corpus() -> Corpus:
    created_at = START + pd.to_timedelta(np.arange(8), unit="h")
    table = pd.DataFrame({"id": list("abcdefgh"), "title": "", "description": "", "created_at": created_at})
    made_at = [pd.NaT if hours is None else START + pd.Timedelta(hours=hours) for *_, hours in LINKS]
    links = pd.DataFrame(
        {
            "query": [link[0] for link in LINKS],
            "document": [link[1] for link in LINKS],
            "source": "column",
            "made_at": pd.Series(made_at, dtype="datetime64[ns, UTC]"),
        }
    )
    both = Links(links, 8, 8)
    return Corpus(Documents("hand", table), Groups.from_links(both), both)


def test_targets_are_log10_hours_from_the_later_document_to_the_first_link(corpus):
    anchors, warnings = find_anchors(corpus, min_minutes=6)
    assert anchors[["anchor", "master"]].to_numpy().tolist() == [[2, 0], [3, 1], [6, 5]]
    np.testing.assert_allclose(anchors["hours"], [100, 10, 0.1])
    np.testing.assert_allclose(anchors["target"], [2, 1, -1])
    assert anchors["group"].tolist() == [0, 0, 0]
    assert warnings == (
        "duplicate links without a date: 1, left out",
        "duplicate links made before their later document: 1, left out",
        "further links of the same anchor: 1, left out",
        "links made within 6 min: 1, counted as 6 min",
    )


def test_what_was_known_at_a_moment(corpus):
    anchors, _ = find_anchors(corpus, min_minutes=1)
    assert known_before(anchors, START + pd.Timedelta(hours=13)).tolist() == [False, False, True]
    assert known_before(anchors, START + pd.Timedelta(hours=14)).tolist() == [False, True, True]


def test_input_without_dates_is_refused(corpus):
    undated = corpus.links.table.assign(made_at=pd.Series(pd.NaT, index=range(6), dtype="datetime64[ns, UTC]"))
    with pytest.raises(
        ValueError, match=r"hand: none of its 6 duplicate links says when .* dataset\.columns\.resolved_at="
    ):
        find_anchors(replace(corpus, links=Links(undated, 8, 8)), 1)
    for nothing in (None, Links(undated[:0], 8, 8)):
        with pytest.raises(ValueError, match="hand has no duplicate links"):
            find_anchors(replace(corpus, links=nothing), 1)
    table = corpus.reports.assign(created_at=pd.Series(pd.NaT, index=range(8), dtype="datetime64[ns, UTC]"))
    with pytest.raises(ValueError, match=r"hand has no creation dates: .* dataset\.columns\.created_at="):
        find_anchors(replace(corpus, documents=Documents("hand", table)), 1)
    early = corpus.links.table.assign(made_at=START)
    with pytest.raises(ValueError, match="no duplicate link was made after its later document"):
        find_anchors(replace(corpus, links=Links(early, 8, 8)), 1)


@pytest.fixture
def split(waiting_corpus):
    return np.repeat(np.array([0, 1, 2], dtype=np.int8), (240, 80, 80))


def test_a_field_that_the_corpus_lacks_is_refused(waiting_corpus, split):
    with pytest.raises(ValueError, match=r"task.fields=\['component', 'colour'\]: small has no column colour"):
        assemble(waiting_corpus, split, {"question"}, None, None, True, 1.0, ["component", "colour"])


def test_training_anchors_that_are_confirmed_too_late_are_named(waiting_corpus, split):
    table = waiting_corpus.links.table
    end = waiting_corpus.reports["created_at"].iloc[-1]
    late = Links(table.assign(made_at=end.floor("s").replace(year=2030)), 400, 400)
    message = "split train has 0 anchors with a dated link .*confirmed after validation begins: 59 of 59, left out"
    with pytest.raises(ValueError, match=message):
        assemble(replace(waiting_corpus, links=late), split, {"question"}, None, None, True, 1.0)


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


DAYS = pd.to_datetime([f"2024-01-0{day}" for day in range(1, 6)], utc=True)
# The first is resolved after a day, the second after four, the third after half a day; the fourth stays open.
RESOLVED = pd.to_datetime(["2024-01-02", "2024-01-06", "2024-01-03 12:00", None, None], utc=True, format="ISO8601")
NOW = np.datetime64("2024-01-05")


@pytest.fixture
def resolutions():
    return Resolutions(pd.DataFrame({"created_at": DAYS, "resolved_at": RESOLVED}))


def test_reports_with_the_same_tag(resolutions):
    found = resolutions.of_tags(np.array([0, 1, 2, 3]), NOW)
    assert found["same_tag_open"] == 0.5
    assert found["same_tag_resolved_of_last_30_days"] == 0.5
    assert found["same_tag_resolved_of_last_100"] == 0.5
    assert found["same_tag_resolved_within_a_day"] == pytest.approx(2 / 3)  # the fourth is not older than a day
    month_later = resolutions.of_tags(np.array([0, 1, 2, 3]), NOW + np.timedelta64(28, "D"))
    assert month_later["same_tag_open"] == 0.25
    assert month_later["same_tag_resolved_of_last_30_days"] == 0.5  # of January 3 and 4
    assert np.isnan(list(resolutions.of_tags(np.array([], dtype=int), NOW).values())).all()


def test_similar_reports(resolutions):
    found = resolutions.of_similar(np.array([0.9, 0.5, 0.6, 0.8]), NOW)
    assert found["similar_open"] == 0.5
    first, third = np.log10([24, 12])
    assert found["similar_hours"] == pytest.approx((0.9 * first + 0.6 * third) / 1.5)
    so_far = np.log10([24, 24 * 3, 12, 24])
    assert found["similar_hours_so_far"] == pytest.approx(so_far.mean())
    assert (found["nearest_resolved"], found["nearest_hours"]) == (1, first)
    assert found["nearest_lead"] == pytest.approx(0.1)
    assert found["nearest_5_resolved"] == 0.5
    assert found["nearest_5_age"] == pytest.approx(np.median(np.log10([96, 72, 48, 24])))
    assert (found["very_similar"], found["similar_in_30_days"]) == (2, 3)


def test_reports_are_open_unless_they_were_resolved_before(resolutions):
    found = resolutions.of_similar(np.array([0.9]), np.datetime64("2024-01-02"))
    assert resolutions.of_tags(np.array([0]), np.datetime64("2024-01-02"))["same_tag_open"] == 1
    assert (found["similar_open"], found["nearest_resolved"]) == (1, 0)
    resolutions = Resolutions(pd.DataFrame({"created_at": DAYS}))
    assert resolutions.of_tags(np.array([0, 1]), NOW)["same_tag_open"] == 1
    assert resolutions.of_document(0, NOW)["resolved"] == 0
    found = resolutions.of_similar(np.array([]), NOW)
    assert (found.pop("very_similar"), found.pop("similar_in_30_days")) == (0, 0)
    assert np.isnan(list(found.values())).all()


def test_one_report(resolutions):
    found = resolutions.of_document(2, NOW)
    assert found["resolved"] == 1
    assert found["hours_since_resolved"] == pytest.approx(np.log10(36))
    assert found["hours_to_resolve"] == pytest.approx(np.log10(12))
    # Resolved later is not known now.
    assert resolutions.of_document(1, NOW)["resolved"] == 0
    assert np.isnan(resolutions.of_document(1, NOW)["hours_to_resolve"])


def test_a_time_counts_as_a_minute_at_least():
    hours = log_hours(np.array([-5, 0, 3600], dtype="timedelta64[s]"))
    np.testing.assert_allclose(hours, [np.log10(1 / 60), np.log10(1 / 60), 0])
