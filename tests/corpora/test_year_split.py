from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.relevance import Groups, Links
from gedbd.corpora.splits import OUTSIDE, TEST, TRAIN, VAL, TimeSplit, YearSplit, keep_assigned, split_corpus
from gedbd.sampling.pairs import PairSampler

MOMENTS = [
    "2012-05-01",
    "2013-09-30T23:59",
    "2013-10-01",
    "2013-12-31T23:59:59",
    "2014-01-01",
    "2014-12-31",
    "2015-01-01",
]


@pytest.fixture
def dated(make_corpus) -> Corpus:
    """Seven reports around the year 2014; 1 is linked to 0, 4 to 2, and 6 to both."""
    corpus = make_corpus([0, 0, 0, 3, 0, 5, 0])
    corpus.reports["created_at"] = pd.to_datetime(pd.Series(MOMENTS), utc=True, format="ISO8601")
    table = pd.DataFrame({"query": [1, 4, 6, 6], "document": [0, 2, 0, 2], "source": "x", "made_at": pd.NaT})
    return replace(corpus, links=Links(table, 7, 7))


def test_the_year_is_tested_on_what_came_before_it(dated):
    parts = split_corpus(YearSplit(2014, 92), dated)
    assert parts.tolist() == [TRAIN, TRAIN, VAL, VAL, TEST, TEST, OUTSIDE]
    assert parts.dtype == np.int8
    assert split_corpus(YearSplit(2014, 1), dated).tolist() == [TRAIN] * 3 + [VAL] + [TEST] * 2 + [OUTSIDE]


def test_no_pair_with_a_later_document_is_in_a_part(dated):
    split = YearSplit(2014)
    parts = split_corpus(split, dated)
    earlier, later = np.triu_indices(7, 1)
    of_pairs = split.of_pairs(parts, earlier, later)
    assert (of_pairs == parts[later]).all()
    assert (of_pairs[later == 6] == OUTSIDE).all()


def test_later_documents_are_cut_off_with_their_links(dated):
    corpus, parts = keep_assigned(dated, split_corpus(YearSplit(2014), dated))
    assert len(corpus) == len(parts) == 6
    assert corpus.reports["id"].tolist() == dated.reports["id"][:6].tolist()
    assert corpus.group.tolist() == [0, 0, 0, 3, 0, 5]
    assert isinstance(corpus.relevance, Groups)
    assert corpus.links is not None
    assert corpus.links.pairs.tolist() == [[1, 4], [0, 2]]
    assert corpus.warnings == ("the last 1 of 7 reports were created after the test part and are left out",)
    assert split_corpus(YearSplit(2014), corpus).tolist() == parts.tolist()
    whole, _ = keep_assigned(dated, split_corpus(TimeSplit(0.4, 0.6), dated))
    assert whole is dated


def test_a_year_without_documents_dates_or_duplicates_is_refused_in_one_line(dated, make_corpus):
    with pytest.raises(ValueError, match=r"split.year=2012 leaves part train of small without documents"):
        split_corpus(YearSplit(2012), dated)
    with pytest.raises(ValueError, match=r"split.year=2016 leaves part val .*from 2012-05-01 to 2015-01-01: choose"):
        split_corpus(YearSplit(2016), dated)
    with pytest.raises(ValueError, match="split=year needs creation dates, and small has none"):
        split_corpus(YearSplit(2014), make_corpus([0, 0]))
    alone = replace(dated, relevance=Groups(np.array([0, 1, 1, 3, 1, 5, 6])))
    with pytest.raises(
        ValueError, match=r"part train of small has none of its \d+ duplicate pairs: .* \(split.year=2014"
    ):
        PairSampler().sample(alone, YearSplit(2014))


def test_a_share_of_what_came_before_the_test_validates(dated):
    parts = split_corpus(TimeSplit(test_from="2014-01-01", val_share=0.25), dated)
    assert parts.tolist() == [TRAIN] * 3 + [VAL] + [TEST] * 3
    with pytest.raises(ValueError, match="leaves a part empty"):
        split_corpus(TimeSplit(test_from="2014-01-01", val_share=1.0), dated)
