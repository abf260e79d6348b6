"""P x K batches, counted by loops."""

from collections import Counter

import numpy as np
import pytest
from epochs import NO_PAIRS, epoch_of

from gedbd.sampling.batches import BatchIndices, SamplerInputs
from gedbd.sampling.group_batches import PKBatches, nearest_groups, nearest_rows

SIZES = [2] * 20 + [3] * 8 + [5] * 4 + [9]
SETTINGS = {"seed": 0, "singletons": 0.0, "negatives_per_positive": 1.0, "hard": 0.0, "neighbours": 5, "per_group": 2}


def pk_batches(batch_size: int, **changed: float) -> PKBatches:
    return PKBatches(batch_size=batch_size, **(SETTINGS | changed))


def inputs(sizes: list[int] = SIZES, singles: int = 40, vectors: np.ndarray | None = None) -> SamplerInputs:
    """Groups of the given sizes, their rows shuffled among single reports."""
    count = sum(sizes) + singles
    rows = np.random.default_rng(1).permutation(count)
    group = np.arange(count)
    for members in np.split(rows[: sum(sizes)], np.cumsum(sizes)[:-1]):
        group[members] = members.min()
    return SamplerInputs(NO_PAIRS, group, np.ones(count, dtype=bool), vectors)


def members(step: BatchIndices, found: SamplerInputs) -> Counter[int]:
    assert len(set(step.rows.tolist())) == len(step.rows)
    return Counter(found.observed_group[step.rows].tolist())


@pytest.mark.parametrize("hard", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [4, 8, 32])
def test_exactly_p_groups_of_k_and_every_group_in_an_epoch(batch_size, world_size, hard):
    vectors = np.random.default_rng(0).normal(size=(sum(SIZES) + 40, 4)).astype(np.float32)
    found = inputs(vectors=vectors)
    met: Counter[int] = Counter()
    for rank in range(world_size):
        for step in epoch_of(pk_batches(batch_size, hard=hard)(found, rank, world_size), 3):
            counts = members(step, found)
            assert len(step.rows) == batch_size
            assert list(counts.values()) == [2] * (batch_size // 2)
            met.update(counts.keys())
    assert len(met) == len(SIZES)
    assert sum(met.values()) - len(SIZES) < world_size * batch_size  # repeated only where the last steps fall short


@pytest.mark.parametrize(
    ("sizes", "batch_size", "counts"),
    [
        ([3] * 7 + [6] * 5, 12, [3] * 4),
        ([2, 2, 4], 32, [2, 2, 3]),  # a smaller group gives all it has, and fewer groups than P all meet
    ],
)
def test_three_of_each_group_where_it_has_as_many(sizes, batch_size, counts):
    found = inputs(sizes)
    for step in epoch_of(pk_batches(batch_size, per_group=3)(found)):
        assert sorted(members(step, found).values()) == counts


def test_other_reports_of_a_large_group_in_other_epochs():
    found = inputs([9] * 4)
    rows = {row for epoch in range(30) for step in epoch_of(pk_batches(8)(found), epoch) for row in step.rows.tolist()}
    assert len(rows) == 36


def test_pairs_of_a_step_are_all_inside_groups_and_as_many_across():
    found = inputs()
    for step in epoch_of(pk_batches(8)(found)):
        same = found.observed_group[step.pairs[:, 0]] == found.observed_group[step.pairs[:, 1]]
        assert step.label.tolist() == same.astype(int).tolist() == [1] * 4 + [0] * 4


def test_single_reports_come_on_top_as_negatives():
    found = inputs()
    for step in epoch_of(pk_batches(16, singletons=0.25)(found)):
        assert sorted(members(step, found).values()) == [1] * 4 + [2] * 6


def test_hard_groups_are_the_nearest_of_the_others():
    """Groups lie in pairs at the corners of a space of their own: a step of two groups must hold such a pair."""
    found = inputs([2] * 12, singles=0)
    masters = np.unique(found.observed_group)
    corner = np.eye(6, dtype=np.float32)[np.searchsorted(masters, found.observed_group) // 2]
    steps = epoch_of(pk_batches(4, hard=0.5)(found._replace(vectors=corner)))
    assert len(steps) == 6
    for step in steps:
        first, second = sorted(np.searchsorted(masters, list(members(step, found))))
        assert (first % 2, second) == (0, first + 1)


def test_the_seed_and_the_epoch_fix_the_draws():
    found = inputs()
    first, again, other = (
        [step.rows.tolist() for step in epoch_of(pk_batches(8, seed=seed)(found), epoch)]
        for seed, epoch in ((1, 2), (1, 2), (1, 3))
    )
    assert first == again != other


@pytest.mark.parametrize("changed", [{"per_group": 1}, {"per_group": 5}, {"per_group": 4, "singletons": 0.5}])
def test_steps_that_hold_no_two_groups_of_two_are_refused(changed):
    with pytest.raises(ValueError, match=r"batches.per_group=. must be 2 or more, and fit twice"):
        pk_batches(8, **changed)


def test_nearest_rows_and_groups_by_hand():
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0.96, -0.28]], dtype=np.float32)
    near = nearest_rows(vectors, np.array([0, 3]), np.array([1, 2, 4]), 2)
    assert {row: found.tolist() for row, found in near.items()} == {0: [4, 1], 3: [2, 1]}
    groups = [np.array([0, 1]), np.array([2]), np.array([3]), np.array([4])]
    assert nearest_groups(vectors, groups, 1).tolist() == [[0, 3], [1, 0], [2, 1], [3, 0]]
    assert nearest_groups(vectors, groups, 9).shape == (4, 4)
