import numpy as np
import pytest

from gedbd.corpora.corpus import keep_last


def test_the_newest_reports_are_kept_and_groups_renamed_after_the_oldest_that_is_left(make_corpus):
    corpus = make_corpus([0, 1, 0, 3, 1, 0, 6, 3, 1], days=range(9))
    newest = keep_last(corpus, 6)  # 3, 1, 0, 6, 3, 1: the masters 0 and 1 are gone
    assert newest.documents.ids.tolist() == ["1003", "1004", "1005", "1006", "1007", "1008"]
    assert newest.group.tolist() == [0, 1, 2, 3, 0, 1]
    assert newest.relevance.in_group.tolist() == [True, True, False, False, True, True]
    assert newest.group.dtype == np.int64
    assert newest.reports.index.tolist() == list(range(6))
    assert newest.reports["created_at"].tolist() == corpus.reports["created_at"].tolist()[3:]
    assert (newest.name, newest.warnings) == (
        "small",
        ("only the newest 6 of 9 reports are kept (dataset.last_n)",),
    )
    assert corpus.group.tolist() == [0, 1, 0, 3, 1, 0, 6, 3, 1]


@pytest.mark.parametrize("seed", range(3))
def test_pairs_among_the_newest_are_those_there_were(make_corpus, seed):
    generator = np.random.default_rng(seed)
    _, oldest, inverse = np.unique(generator.integers(0, 30, size=90), return_index=True, return_inverse=True)
    corpus, count = make_corpus(oldest[inverse]), 50
    kept, newest = corpus.group[-count:], keep_last(corpus, count).group
    assert ((kept[:, None] == kept) == (newest[:, None] == newest)).all()
    assert newest.tolist() == [kept.tolist().index(number) for number in kept]


def test_to_keep_as_many_as_there_are_or_more_changes_nothing(make_corpus):
    corpus = make_corpus([0, 1, 0, 3])
    assert keep_last(corpus, 4) is corpus
    assert keep_last(corpus, 1000) is corpus
    assert keep_last(corpus, 1).group.tolist() == [0]


@pytest.mark.parametrize("count", [0, -4])
def test_to_keep_no_report_is_refused(make_corpus, count):
    with pytest.raises(ValueError, match=f"dataset.last_n={count} must be 1 or more, or null for all reports"):
        keep_last(make_corpus([0, 0]), count)


def test_the_fingerprint_depends_on_texts_and_groups(make_corpus):
    first = make_corpus([0, 1, 0])
    assert first.fingerprint == make_corpus([0, 1, 0]).fingerprint != make_corpus([0, 1, 1]).fingerprint
