"""Batches of whole groups, counted by loops or worked out by hand."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from epochs import NO_PAIRS, as_pairs, epoch_of, of_all_processes

from gedbd.sampling.batches import BatchIndices, SamplerInputs
from gedbd.sampling.group_batches import GroupBatches, balance

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
    return SamplerInputs(NO_PAIRS, named[order], training[order], vectors)


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


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("ratio", [1.0, 2.5])
def test_every_report_of_a_group_is_in_one_batch_an_epoch(world_size, ratio):
    inputs = corpus_of([5, 3, 2, 2, 4, 2, 7, 3, 2, 2, 6, 2], singles=30, outside=30)
    groups, singles = observed(inputs)
    batches = GroupBatches(batch_size=12, seed=0, **SETTINGS | {"negatives_per_positive": ratio})
    counts = set()
    for epoch in range(4):
        drawn = [step for steps in of_all_processes(batches, inputs, world_size) for step in epoch_of(steps, epoch)]
        counts.add(len(drawn))
        met = Counter(row for step in drawn for row in step.rows.tolist())
        assert all(met[row] == 1 for rows in groups.values() for row in rows)
        assert set(met) <= set(np.flatnonzero(inputs.training).tolist())
        for step in drawn:
            check_pairs(step, inputs, ratio)
            assert len(singles & set(step.rows.tolist())) == 3
            for rows in groups.values():
                assert len(rows & set(step.rows.tolist())) in (0, len(rows))
    assert len(counts) == 1


def test_groups_whatever_their_sizes_leave_no_step_without_a_pair():
    rng = np.random.default_rng(0)
    for case in range(150):
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
    inputs = SamplerInputs(NO_PAIRS, group, training, None)
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
    inputs = SamplerInputs(NO_PAIRS, np.array([0, 0, 2, 2, 4, 4]), np.ones(6, dtype=bool), vectors)
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
    met = Counter()
    for seed in range(60):
        (step,) = epoch_of(GroupBatches(8, seed, 0.5, 1.0, hard=0.0, neighbours=1)(inputs))
        met.update(set(step.rows.tolist()) & singles)
    assert len(met) > 50  # none preferred: of 60 singles, 4 are drawn 60 times


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


def test_a_part_of_a_group_is_never_a_report_alone():
    for size in range(4, 40):
        for batch_size in (4, 6, 9):
            inputs = corpus_of([size], singles=9)
            (large,) = observed(inputs)[0].values()
            for step in epoch_of(GroupBatches(batch_size, 0, **SETTINGS)(inputs)):
                assert len(large & set(step.rows.tolist())) >= 2


def test_without_single_reports_there_are_groups_alone():
    inputs = corpus_of([2, 3, 4, 2], singles=0)
    for vectors in (None, inputs.vectors):
        drawn = epoch_of(GroupBatches(8, 0, **SETTINGS)(inputs._replace(vectors=vectors)))
        assert sorted(row for step in drawn for row in step.rows.tolist()) == list(range(11))


def test_the_seed_and_the_epoch_fix_the_draws_of_groups():
    inputs = corpus_of([2, 3, 4, 2, 2, 5], singles=20)

    def draws(seed: int, epoch: int) -> list[list[tuple[int, int, int]]]:
        return [as_pairs(step) for step in epoch_of(GroupBatches(8, seed, **SETTINGS)(inputs), epoch)]

    assert draws(0, 1) == draws(0, 1)
    assert draws(0, 0) != draws(0, 1) != draws(1, 1)


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


def test_balance_by_hand():
    assert balance([2, 5, 2, 3], 3) == [0, 0, 1, 2]
    assert balance([9, 1, 1], 3) == [0, 1, 2]
    assert balance([1, 1, 9], 3) == [0, 1, 2]


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
