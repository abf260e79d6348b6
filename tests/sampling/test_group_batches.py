from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from epochs import NO_PAIRS, ONE_TRACKER, as_pairs, epoch_of, of_all_processes

from gedbd.sampling.batches import BatchIndices, SamplerInputs
from gedbd.sampling.group_batches import GroupBatches, PKBatches, balance, nearest_groups, nearest_rows

SETTINGS = {"singletons": 0.25, "negatives_per_positive": 1.0, "hard": 0.5, "neighbours": 3}


def corpus_of(sizes: list[int], singles: int, outside: int = 0, seed: int = 0) -> SamplerInputs:
    """Groups of some sizes, single reports, and reports outside training, of which half belong to the first groups."""
    group = np.repeat(np.arange(len(sizes)), sizes).tolist()
    group += range(len(sizes), len(sizes) + singles)
    group += [number if number < len(sizes) else 10_000 for number in range(outside)]
    training = np.arange(len(group)) < len(group) - outside
    order = np.random.default_rng(seed).permutation(len(group))
    _, named = np.unique(group, return_inverse=True)
    vectors = np.random.default_rng(seed).normal(size=(len(group), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return SamplerInputs(NO_PAIRS, named[order], training[order], vectors, ONE_TRACKER)


def observed(inputs: SamplerInputs) -> tuple[dict[int, set[int]], set[int]]:
    """Training reports by group, of groups with two or more of them; and the other training reports."""
    groups: dict[int, set[int]] = {}
    for row in np.flatnonzero(inputs.training).tolist():
        groups.setdefault(int(inputs.observed_group[row]), set()).add(row)
    paired = {number: rows for number, rows in groups.items() if len(rows) > 1}
    return paired, {row for rows in groups.values() if len(rows) == 1 for row in rows}


def check_pairs(step: BatchIndices, inputs: SamplerInputs, ratio: float) -> None:
    """All positives, no mates inputs 0, none named twice, and as many negatives as there should be."""
    mates = inputs.observed_group
    positives = {(a, b) for a, b in combinations(step.rows.tolist(), 2) if mates[a] == mates[b]}
    positive, negatives = ([(a, b) for a, b, label in as_pairs(step) if label == wanted] for wanted in (1, 0))
    assert len(positive) == len(positives) > 0
    assert set(positive) == positives
    assert all(mates[a] != mates[b] for a, b in negatives)
    assert len(set(negatives)) == len(negatives)
    across = len(step.rows) * (len(step.rows) - 1) // 2 - len(positives)
    assert len(negatives) == min(round(ratio * len(positives)), across)


def test_groups_whatever_their_sizes_leave_no_step_without_a_pair():
    rng = np.random.default_rng(0)
    for case in range(60):
        sizes = rng.choice([2, 2, 3, 4, 5, 9, 25], size=rng.integers(1, 12)).tolist()
        inputs = corpus_of(sizes, singles=int(rng.integers(0, 9)), outside=4, seed=case)
        batches = GroupBatches(batch_size=int(rng.integers(5, 20)), seed=case, **SETTINGS)
        world_size, groups = int(rng.integers(1, 4)), observed(inputs)[0]
        drawn = [step for steps in of_all_processes(batches, inputs, world_size) for step in epoch_of(steps, case)]
        assert len(drawn) == world_size * -(-sum(map(len, groups.values())) // (batches.capacity * world_size))
        met = Counter(row for step in drawn for row in step.rows.tolist())
        assert all(met[row] >= 1 for rows in groups.values() for row in rows)
        for step in drawn:
            check_pairs(step, inputs, 1.0)
            assert len(step.rows) < batches.batch_size + batches.capacity


def test_a_step_by_hand():
    group = np.array([0, 0, 2, 3, 0, 3, 6, 2, 2])
    training = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)  # of group 2, one report is left to train on
    inputs = SamplerInputs(NO_PAIRS, group, training, None, ONE_TRACKER)
    (step,) = epoch_of(GroupBatches(8, 0, singletons=0.25, negatives_per_positive=1.0, hard=0.0, neighbours=1)(inputs))
    assert step.rows.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert [pair for pair in as_pairs(step) if pair[2] == 1] == [(0, 1, 1), (0, 4, 1), (1, 4, 1), (3, 5, 1)]
    assert len(step.label) == 8
    (most,) = epoch_of(GroupBatches(8, 0, 0.25, negatives_per_positive=100.0, hard=0.0, neighbours=1)(inputs))
    assert {(a, b) for a, b, label in as_pairs(most) if label == 0} == {
        (a, b) for a, b in combinations(range(7), 2) if group[a] != group[b]
    }


def test_hard_negatives_are_the_most_alike():
    angles = np.radians([0, 90, 10, 180, 95, 200])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    inputs = SamplerInputs(NO_PAIRS, np.array([0, 0, 2, 2, 4, 4]), np.ones(6, dtype=bool), vectors, ONE_TRACKER)
    nearest = {(1, 4), (0, 2), (3, 5)}  # 5, 10 and 20 degrees apart; the next two are 80
    for hard, ratio, others in ((1.0, 1.0, 0), (0.5, 2.0, 3), (0.3, 1.0, 2)):
        draws = set()
        for epoch in range(8):
            (step,) = epoch_of(GroupBatches(6, 0, 0.0, ratio, hard, 5)(inputs), epoch)
            negatives = {(a, b) for a, b, label in as_pairs(step) if label == 0}
            assert {(1, 4)} <= negatives
            assert hard == 0.3 or nearest <= negatives
            draws.add(frozenset(negatives - nearest))
        assert (len(draws) > 1) == (others > 0)


def test_hard_single_reports_come_from_the_nearest():
    rng = np.random.default_rng(0)
    inputs = corpus_of([2, 2], singles=60)
    groups, singles = observed(inputs)
    rows, singletons = sorted(row for members in groups.values() for row in members), np.array(sorted(singles))
    cosine = inputs.vectors[rows] @ inputs.vectors[singletons].T
    nearest = set(singletons[cosine.argmax(axis=1)].tolist())
    near = [set(singletons[np.argsort(-row)[:3]].tolist()) for row in cosine]
    picks = set()
    for seed in rng.integers(1000, size=20).tolist():
        (step,) = epoch_of(GroupBatches(8, seed, 0.5, 1.0, hard=1.0, neighbours=1)(inputs))
        assert nearest <= set(step.rows.tolist())
        assert len(step.rows) == 8
        (step,) = epoch_of(GroupBatches(8, seed, 0.5, 1.0, hard=1.0, neighbours=3)(inputs))
        drawn = set(step.rows.tolist()) & singles
        assert all(drawn & of_report for of_report in near)
        picks.add(frozenset(drawn))
    assert len(picks) > 1


def test_a_group_too_large_for_a_step_is_cut_differently_each_epoch():
    inputs = corpus_of([20, 2], singles=5)
    large = max(observed(inputs)[0].values(), key=len)
    cuts = set()
    for epoch in range(5):
        drawn = epoch_of(GroupBatches(8, 0, **SETTINGS)(inputs), epoch)  # capacity 6: pieces of 5
        assert len(drawn) == 4
        parts = [frozenset(large & set(step.rows.tolist())) for step in drawn]
        assert frozenset.union(*parts) == large
        assert all(len(part) in (0, 5, 10) for part in parts)
        cuts.add(frozenset(parts))
    assert len(cuts) == 5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"batch_size": 3}, "batches.batch_size=3 must be 4 or more"),
        ({"batch_size": 8, "singletons": 0.75}, "batches.singletons=0.75 leaves 2 of batches.batch_size=8 reports"),
        ({"batch_size": 4, "singletons": 0.9}, "batches.singletons=0.9 leaves 0 of batches.batch_size=4 reports"),
    ],
)
def test_settings_that_allow_no_batch_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        GroupBatches(**{"batch_size": 16, "seed": 0} | SETTINGS | setting)


def test_balance_gives_every_batch_a_piece_and_none_much_more_than_its_part():
    rng = np.random.default_rng(0)
    for _ in range(300):
        sizes = rng.integers(2, 9, size=rng.integers(1, 40)).tolist()
        num_batches = int(rng.integers(1, len(sizes) + 1))
        batches = balance(sizes, num_batches)
        assert set(np.diff(batches)) <= {0, 1}
        assert (batches[0], batches[-1]) == (0, num_batches - 1)
        loads = np.bincount(batches, weights=sizes)
        assert loads.max() <= sum(sizes) / num_batches + max(sizes)


SIZES = [2] * 20 + [3] * 8 + [5] * 4 + [9]
PK_SETTINGS = {"seed": 0, "singletons": 0.0, "negatives_per_positive": 1.0}
PK_SETTINGS |= {"hard": 0.0, "neighbours": 5, "per_group": 2}


def pk_batches(batch_size: int, **changed: float) -> PKBatches:
    return PKBatches(batch_size=batch_size, **(PK_SETTINGS | changed))


def inputs(sizes: list[int] = SIZES, singles: int = 40, vectors: np.ndarray | None = None) -> SamplerInputs:
    """Groups of the given sizes, their rows shuffled among single reports."""
    count = sum(sizes) + singles
    rows = np.random.default_rng(1).permutation(count)
    group = np.arange(count)
    for members in np.split(rows[: sum(sizes)], np.cumsum(sizes)[:-1]):
        group[members] = members.min()
    return SamplerInputs(NO_PAIRS, group, np.ones(count, dtype=bool), vectors, ONE_TRACKER)


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


def test_pairs_of_a_step_are_all_inside_groups_and_as_many_across():
    found = inputs()
    for step in epoch_of(pk_batches(8)(found)):
        same = found.observed_group[step.pairs[:, 0]] == found.observed_group[step.pairs[:, 1]]
        assert step.label.tolist() == same.astype(int).tolist() == [1] * 4 + [0] * 4


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
