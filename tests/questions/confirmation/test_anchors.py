"""Targets by hand, what is left out and counted, and input without dates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus, Documents
from gedbd.corpora.relevance import Groups, Links
from gedbd.questions.confirmation.anchors import find_anchors, known_before

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
    with pytest.raises(ValueError, match=r"hand has no dates of creation: .* dataset\.columns\.created_at="):
        find_anchors(replace(corpus, documents=Documents("hand", table)), 1)
    early = corpus.links.table.assign(made_at=START)
    with pytest.raises(ValueError, match="no duplicate link was made after its later document"):
        find_anchors(replace(corpus, links=Links(early, 8, 8)), 1)
