"""Whole files in the parts, by shares of their methods."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Documents
from gedbd.corpora.splits import OUTSIDE, TEST, TRAIN, VAL, FileSplit


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
    with pytest.raises(ValueError, match="sources has only 2 files, but each of the three parts needs at least one"):
        FileSplit().of_documents(documents([5, 5]))
    with pytest.raises(ValueError, match=r"split\.val=0\.9 and split\.test=0\.2"):
        FileSplit(val=0.9).of_documents(documents([5, 5, 5]))
