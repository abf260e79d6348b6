from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import OUTSIDE, TEST, TRAIN, VAL, Corpus, Documents
from gedbd.corpora.relevance import Groups, Links
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import (
    FileSplit,
    FoldSplit,
    GroupSplit,
    PairSplit,
    TimeSplit,
    YearSplit,
    keep_assigned,
    split_corpus,
)


def every_pair(count: int) -> tuple[np.ndarray, np.ndarray]:
    earlier, later = np.array(list(combinations(range(count), 2))).T
    return earlier, later


def test_time_cuts_at_shares_at_dates_or_by_rows(make_corpus):
    parts = split_corpus(TimeSplit(0.6, 0.8), make_corpus(range(10), days=range(10)))
    assert parts.tolist() == [TRAIN] * 6 + [VAL] * 2 + [TEST] * 2
    assert parts.dtype == np.int8
    corpus = make_corpus(range(10), days=range(10))
    parts = split_corpus(TimeSplit("2024-01-04", "2024-01-08T12:00"), corpus)
    assert parts.tolist() == [TRAIN] * 3 + [VAL] * 5 + [TEST] * 2
    assert (split_corpus(TimeSplit("2024-01-04", 0.8), corpus) == split_corpus(TimeSplit(0.3, 0.8), corpus)).all()
    assert split_corpus(TimeSplit(0.6, 0.8), make_corpus(range(5))).tolist() == [0, 0, 0, 1, 2]
    with pytest.raises(ValueError, match=r"split.val_from=2024-01-02 is a date, but small has no dates"):
        split_corpus(TimeSplit("2024-01-02", 0.8), make_corpus(range(5)))


def test_time_never_parts_reports_of_the_same_second(make_corpus):
    corpus = make_corpus(range(10), days=[0, 1, 2, 3, 5, 5, 5, 7, 7, 7])
    parts = split_corpus(TimeSplit(0.6, 0.8), corpus)
    assert parts.tolist() == [TRAIN] * 4 + [VAL] * 3 + [TEST] * 3
    generator = np.random.default_rng(0)
    for _ in range(50):
        days = np.sort(generator.integers(0, 12, size=40)).astype(float)
        shares = sorted(generator.uniform(0.2, 0.95, size=2))
        try:
            parts = split_corpus(TimeSplit(*shares), make_corpus(range(40), days=days))
        except ValueError:  # both shares fell on one moment
            continue
        assert pd.Series(parts).groupby(days).nunique().max() == 1
        assert (np.diff(parts) >= 0).all()


def test_no_report_after_the_training_part_is_in_a_training_pair(make_corpus):
    split, corpus = TimeSplit(0.5, 0.75), make_corpus(range(40), days=np.repeat(np.arange(20), 2))
    parts = split_corpus(split, corpus)
    earlier, later = every_pair(40)
    of_pairs = split.of_pairs(parts, earlier, later)
    assert (of_pairs == parts[later]).all()
    assert (of_pairs == split.of_pairs(parts, later, earlier)).all()
    dates = corpus.reports["created_at"].to_numpy()
    first_val, first_test = dates[parts == VAL].min(), dates[parts == TEST].min()
    for side in (earlier, later):
        assert dates[side[of_pairs == TRAIN]].max() < first_val
        assert dates[side[of_pairs == VAL]].max() < first_test
    assert set(parts[earlier[of_pairs == TEST]]) == {TRAIN, VAL, TEST}


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (TimeSplit(0.8, 0.6), r"cuts the 10 reports of small at rows 8 and 6.*split.val_from \(0.8\)"),
        (TimeSplit(0.6, 0.6), "leaves a split empty"),
        (TimeSplit(0.0, 0.5), "rows 0 and 5"),
        (TimeSplit(0.5, 1.0), "rows 5 and 10"),
        (TimeSplit(0.5, 2015), "rows 5 and 20150"),
        (TimeSplit("2023-01-01", 0.5), "rows 0 and 5"),
        (TimeSplit(0.5, "2030-01-01"), "rows 5 and 10"),
        (TimeSplit(0.5, "soon"), r"split.test_from=soon is neither a share of the reports \(0.8\) nor a date"),
    ],
)
def test_time_refuses_boundaries_that_leave_a_part_empty(make_corpus, split, message):
    with pytest.raises(ValueError, match=message):
        split_corpus(split, make_corpus(range(10), days=range(10)))


def test_groups_are_drawn_whole_and_each_kind_by_its_shares(make_corpus):
    sizes = [1] * 100 + [2] * 40 + [5] * 10
    group = np.repeat(np.arange(len(sizes)), sizes)
    parts = split_corpus(GroupSplit(0.2, 0.3, seed=1), make_corpus(group))
    by_group = pd.Series(parts).groupby(group)
    assert by_group.nunique().max() == 1
    part_of_group = by_group.first().to_numpy()
    assert np.bincount(part_of_group[:100]).tolist() == [50, 20, 30]
    assert np.bincount(part_of_group[100:]).tolist() == [25, 10, 15]
    assert not any(set(group[parts == one]) & set(group[parts == other]) for one, other in combinations(range(3), 2))


def test_pairs_between_parts_of_a_group_split_are_outside(make_corpus):
    split, corpus = GroupSplit(0.2, 0.2), make_corpus(np.repeat(np.arange(20), 2))
    parts = split_corpus(split, corpus)
    earlier, later = every_pair(40)
    of_pairs = split.of_pairs(parts, earlier, later)
    for first, second, part in zip(parts[earlier], parts[later], of_pairs, strict=True):
        assert part == (first if first == second else OUTSIDE)
    assert set(of_pairs) == {OUTSIDE, TRAIN, VAL, TEST}
    assert (of_pairs[corpus.group[earlier] == corpus.group[later]] != OUTSIDE).all()


def test_pairs_are_cut_exactly_and_cover_every_report_in_training(make_corpus):
    split = PairSplit(0.2, 0.2, seed=3)
    for count in (5, 10, 1000, 50_000):
        assert np.bincount(split.cut(count)).tolist() == [count * 3 // 5, count // 5, count // 5]
    parts = split_corpus(split, make_corpus(range(7)))
    assert parts.tolist() == [TRAIN] * 7
    assert split.of_pairs(parts, *every_pair(7)).tolist() == [TRAIN] * 21


def test_the_seed_fixes_the_draw_and_another_seed_changes_it(make_corpus):
    corpus = make_corpus(np.repeat(np.arange(50), 2))
    for draw in (lambda seed: split_corpus(GroupSplit(seed=seed), corpus), lambda seed: PairSplit(seed=seed).cut(200)):
        assert (draw(0) == draw(0)).all()
        assert (draw(0) != draw(1)).any()


@pytest.mark.parametrize("shares", [(0.0, 0.2), (0.2, 0.0), (0.5, 0.5), (-0.1, 0.2), (0.2, 1.0)])
@pytest.mark.parametrize("kind", [GroupSplit, PairSplit])
def test_shares_that_leave_a_part_empty_are_refused(make_corpus, kind, shares):
    with pytest.raises(ValueError, match=f"split.val={shares[0]} and split.test={shares[1]} must be above 0"):
        split_corpus(kind(*shares), make_corpus(range(10)))


def folded(make_corpus, folds: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Groups of one to five reports, shuffled over the rows, and the parts of every fold ``(folds, N)``."""
    sizes = [1] * 41 + [2] * 23 + [3] * 11 + [5] * 6
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    corpus = make_corpus(group)
    return group, np.array([split_corpus(FoldSplit(folds, fold, seed), corpus) for fold in range(folds)])


@pytest.mark.parametrize("folds", [3, 5, 7])
def test_every_report_is_in_test_once_and_in_validation_once_over_all_folds(make_corpus, folds):
    _, parts = folded(make_corpus, folds)
    assert parts.dtype == np.int8
    for part in (TEST, VAL):
        assert ((parts == part).sum(axis=0) == 1).all()
    assert ((parts == TRAIN).sum(axis=0) == folds - 2).all()
    assert (np.roll(parts == TEST, -1, axis=0) == (parts == VAL)).all()  # what is tested next is validated on now


@pytest.mark.parametrize("folds", [3, 5])
def test_folds_divide_no_group_and_are_alike_in_size(make_corpus, folds):
    group, parts = folded(make_corpus, folds)
    for fold in parts:
        assert pd.Series(fold).groupby(group).nunique().max() == 1
        of_group = pd.Series(fold).groupby(group).first().to_numpy()
        for kind in (of_group[:41], of_group[41:]):  # singletons, then groups of two and more
            assert (kind == TEST).sum() in (len(kind) // folds, len(kind) // folds + 1)
            assert (kind == VAL).sum() in (len(kind) // folds, len(kind) // folds + 1)
    split, (earlier, later) = FoldSplit(folds), every_pair(len(group))
    of_pairs = split.of_pairs(parts[0], earlier, later)
    same = parts[0][earlier] == parts[0][later]
    assert (of_pairs[same] == parts[0][later][same]).all()
    assert (of_pairs[~same] == OUTSIDE).all()
    assert (of_pairs[group[earlier] == group[later]] != OUTSIDE).all()


def test_the_seed_makes_the_folds_and_their_number_counts_on(make_corpus):
    group, parts = folded(make_corpus, 5)
    assert (folded(make_corpus, 5)[1] == parts).all()
    assert (folded(make_corpus, 5, seed=1)[1] != parts).any()
    corpus = make_corpus(group)
    assert (split_corpus(FoldSplit(5, fold=7), corpus) == parts[2]).all()
    assert (split_corpus(FoldSplit(5, fold=-1), corpus) == parts[4]).all()


def documents(sizes: list[int]) -> Documents:
    """Files of so many methods, in alphabetical order."""
    paths = np.repeat([f"{number:04}.java" for number in range(len(sizes))], sizes)
    return Documents("sources", pd.DataFrame({"path": paths}))


def test_no_file_is_in_two_parts_and_parts_have_their_shares() -> None:
    sizes = np.random.default_rng(0).integers(1, 30, 300)
    table = documents(sizes.tolist())
    parts = FileSplit(seed=1).of_documents(table)
    assert parts.dtype == np.int8
    assert (pd.Series(parts).groupby(table.table["path"]).nunique() == 1).all()
    shares = np.bincount(parts) / len(parts)
    assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.005)


def test_the_seed_determines_the_parts() -> None:
    table = documents([5] * 40)
    parts = [FileSplit(seed=seed).of_documents(table).tolist() for seed in (1, 1, 2)]
    assert parts[0] == parts[1] != parts[2]


@pytest.mark.parametrize("sizes", [[1, 1, 1], [100, 1, 1], [1, 100, 100], [3, 1, 6, 2]])
def test_each_part_has_a_file(sizes) -> None:
    for seed in range(6):
        parts = FileSplit(seed=seed).of_documents(documents(sizes))
        assert set(parts.tolist()) == {TRAIN, VAL, TEST}


def test_a_pair_is_in_the_part_of_both_documents() -> None:
    parts = np.array([TRAIN, TRAIN, VAL, TEST, TEST], dtype=np.int8)
    earlier = np.array([0, 0, 1, 3])
    later = np.array([1, 2, 3, 4])
    assert FileSplit().of_pairs(parts, earlier, later).tolist() == [TRAIN, OUTSIDE, OUTSIDE, TEST]


def test_what_it_cannot_split_is_refused(make_corpus) -> None:
    with pytest.raises(ValueError, match=r"split=file needs documents with a path, which those of .* lack"):
        FileSplit().of_documents(make_corpus([0, 0, 2]).documents)
    with pytest.raises(ValueError, match="sources has only 2 files, but each of the three splits needs at least one"):
        FileSplit().of_documents(documents([5, 5]))
    with pytest.raises(ValueError, match=r"split\.val=0\.9 and split\.test=0\.2"):
        FileSplit(val=0.9).of_documents(documents([5, 5, 5]))


MOMENTS = ["2012-05-01", "2013-09-30T23:59", "2013-10-01", "2013-12-31T23:59:59", "2014-01-01", "2014-12-31"]
MOMENTS += ["2015-01-01"]


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
    assert corpus.warnings == ("the last 1 of 7 reports were created after the test set and are left out",)
    assert split_corpus(YearSplit(2014), corpus).tolist() == parts.tolist()
    whole, _ = keep_assigned(dated, split_corpus(TimeSplit(0.4, 0.6), dated))
    assert whole is dated


def test_a_year_without_documents_dates_or_duplicates_is_refused_in_one_line(dated, make_corpus):
    with pytest.raises(ValueError, match=r"split.year=2012 leaves split train of small without documents"):
        split_corpus(YearSplit(2012), dated)
    with pytest.raises(ValueError, match=r"split.year=2016 leaves split val .*from 2012-05-01 to 2015-01-01: choose"):
        split_corpus(YearSplit(2016), dated)
    with pytest.raises(ValueError, match="split=year needs creation dates, and small has none"):
        split_corpus(YearSplit(2014), make_corpus([0, 0]))
    alone = replace(dated, relevance=Groups(np.array([0, 1, 1, 3, 1, 5, 6])))
    with pytest.raises(
        ValueError, match=r"split train of small has none of its \d+ duplicate pairs: .* \(split.year=2014"
    ):
        PairSampler().sample(alone, YearSplit(2014))


def test_a_share_of_what_came_before_the_test_validates(dated):
    parts = split_corpus(TimeSplit(test_from="2014-01-01", val_share=0.25), dated)
    assert parts.tolist() == [TRAIN] * 3 + [VAL] + [TEST] * 3
    with pytest.raises(ValueError, match="leaves a split empty"):
        split_corpus(TimeSplit(test_from="2014-01-01", val_share=1.0), dated)
