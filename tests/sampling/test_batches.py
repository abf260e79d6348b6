"""How pairs and groups are dealt into steps: counted by loops, or by hand."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.splits import TimeSplit
from gedbd.sampling.batches import Groups, Labelled, Pairs, Share, Step, Steps
from gedbd.sampling.pairs import PairSampler

SETTINGS = {"singletons": 0.25, "negatives_per_positive": 1.0, "hard": 0.5, "neighbours": 3}
NO_PAIRS = pd.DataFrame({"earlier": [], "later": [], "label": []}, dtype=np.int64)


def as_pairs(step: Step) -> list[tuple[int, int, int]]:
    return [(*map(int, ends), int(label)) for ends, label in zip(step.pairs, step.label, strict=True)]


def epoch_of(steps: Steps, epoch: int = 0) -> list[Step]:
    steps.set_epoch(epoch)
    dealt = list(steps)
    assert len(dealt) == len(steps)
    for step in dealt:
        assert (np.diff(step.rows) > 0).all()  # distinct, in the order of the corpus
        assert np.isin(step.pairs, step.rows).all()
        assert (step.pairs[:, 0] < step.pairs[:, 1]).all()
        assert len(step.label) == len(step.pairs)
    return dealt


def shares(batches: Pairs | Groups, labelled: Labelled, world: int) -> list[Steps]:
    return [batches(labelled, Share(world, rank)) for rank in range(world)]


# ---- a fixed list of pairs


@pytest.fixture
def labelled(make_corpus) -> Labelled:
    """Training pairs of 200 reports, of which 80 are in groups of 2 to 6."""
    rng = np.random.default_rng(0)
    group = np.arange(200)
    rows = rng.permutation(200)[:80]
    for members in np.split(rows, np.cumsum([2] * 10 + [3] * 8 + [4] * 4 + [6] * 3)):
        group[members] = members.min(initial=200)
    corpus, split = make_corpus(group, days=range(200)), TimeSplit()
    pairs = PairSampler(random_negatives=30).sample(corpus, split)
    return Labelled(pairs[pairs["part"] == "train"], group, split.of_reports(corpus) == 0, None)


def test_every_pair_occurs_once_an_epoch(labelled):
    expected = Counter(map(tuple, labelled.pairs[["earlier", "later", "label"]].to_numpy().tolist()))
    orders = []
    for epoch in range(3):
        dealt = epoch_of(Pairs(8, seed=0)(labelled, Share()), epoch)
        assert [len(step.label) for step in dealt[:-1]] == [8] * (len(dealt) - 1)
        orders.append([pair for step in dealt for pair in as_pairs(step)])
        assert Counter(orders[-1]) == expected
        for step in dealt:
            assert step.rows.tolist() == sorted(set(step.pairs.flatten().tolist()))
    assert orders[0] != orders[1] != orders[2]


def test_the_seed_fixes_the_order_of_pairs(labelled):
    first, again, other = (
        [as_pairs(step) for step in epoch_of(Pairs(8, seed)(labelled, Share()), 2)] for seed in (5, 5, 6)
    )
    assert first == again != other


def test_pairs_of_a_group_lie_together_and_fewer_reports_are_encoded(labelled):
    dealt = epoch_of(Pairs(8, seed=0)(labelled, Share()))
    size = Counter(labelled.group.tolist())
    met = []
    for earlier, later, _ in (pair for step in dealt for pair in as_pairs(step)):
        of_group = [row for row in (earlier, later) if size[labelled.group[row]] > 1] or [earlier]
        met.append(labelled.group[of_group[0]])
    runs = [group for place, group in enumerate(met) if place == 0 or met[place - 1] != group]
    assert len(runs) == len(set(met))
    ends, rng = labelled.pairs[["earlier", "later"]].to_numpy(), np.random.default_rng(0)
    order = rng.permutation(len(ends))
    shuffled = sum(len(np.unique(ends[order[start : start + 8]])) for start in range(0, len(order), 8))
    assert sum(len(step.rows) for step in dealt) < 0.8 * shuffled


def test_shuffled_pairs_of_a_group_lie_apart(labelled):
    dealt = {shuffle: epoch_of(Pairs(8, seed=0, shuffle=shuffle)(labelled, Share())) for shuffle in (False, True)}
    pairs = {shuffle: Counter(pair for step in steps for pair in as_pairs(step)) for shuffle, steps in dealt.items()}
    assert pairs[True] == pairs[False]
    encoded = {shuffle: sum(len(step.rows) for step in steps) for shuffle, steps in dealt.items()}
    assert encoded[True] > 1.25 * encoded[False]
    again = epoch_of(Pairs(8, seed=0, shuffle=True)(labelled, Share()))
    assert [as_pairs(step) for step in again] == [as_pairs(step) for step in dealt[True]]


def test_two_processes_share_the_steps_of_one(labelled):
    even = labelled._replace(pairs=labelled.pairs[: len(labelled.pairs) // 2 * 2])
    one = epoch_of(Pairs(12, seed=0)(even, Share()), 3)
    halves = [epoch_of(steps, 3) for steps in shares(Pairs(6, seed=0), even, 2)]
    assert [as_pairs(step) for step in one] == [as_pairs(a) + as_pairs(b) for a, b in zip(*halves, strict=True)]
    assert all(len(a.label) == len(b.label) for a, b in zip(*halves, strict=True))


def test_processes_that_fall_short_repeat_the_first_pairs():
    pairs = pd.DataFrame({"earlier": range(7), "later": range(7, 14), "label": [1, 0, 1, 0, 1, 0, 1]})
    labelled = Labelled(pairs, np.arange(14), np.ones(14, dtype=bool), None)
    alone = [pair for step in epoch_of(Pairs(100, seed=0)(labelled, Share())) for pair in as_pairs(step)]
    halves = [epoch_of(steps) for steps in shares(Pairs(3, seed=0), labelled, 2)]
    assert [len(half) for half in halves] == [2, 2]
    assert [pair for a, b in zip(*halves, strict=True) for pair in as_pairs(a) + as_pairs(b)] == [*alone, alone[0]]


@pytest.mark.parametrize("size", [0, -4])
def test_a_batch_of_no_pairs_is_refused(size):
    with pytest.raises(ValueError, match=rf"batches.batch_size={size} must be 1 or more"):
        Pairs(size, seed=0)


# ---- whole groups


def corpus_of(sizes: list[int], singles: int, outside: int = 0, seed: int = 0) -> Labelled:
    """Groups of some sizes, single reports, and reports outside training, of which half belong to the first groups."""
    group = np.repeat(np.arange(len(sizes)), sizes).tolist()
    group += range(len(sizes), len(sizes) + singles)
    group += [number if number < len(sizes) else 10_000 for number in range(outside)]
    training = np.arange(len(group)) < len(group) - outside
    order = np.random.default_rng(seed).permutation(len(group))
    _, named = np.unique(group, return_inverse=True)
    vectors = np.random.default_rng(seed).normal(size=(len(group), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Labelled(NO_PAIRS, named[order], training[order], vectors)


def known(labelled: Labelled) -> tuple[dict[int, set[int]], set[int]]:
    """Training reports by group, of groups with two or more of them; and the other training reports."""
    groups: dict[int, set[int]] = {}
    for row in np.flatnonzero(labelled.training).tolist():
        groups.setdefault(int(labelled.group[row]), set()).add(row)
    paired = {number: rows for number, rows in groups.items() if len(rows) > 1}
    return paired, {row for rows in groups.values() if len(rows) == 1 for row in rows}


def check_pairs(step: Step, labelled: Labelled, ratio: float) -> None:
    """All positives, no mates labelled 0, none named twice, and as many negatives as there should be."""
    mates = labelled.group
    positives = {(a, b) for a, b in combinations(step.rows.tolist(), 2) if mates[a] == mates[b]}
    labelled_1, negatives = ([(a, b) for a, b, label in as_pairs(step) if label == wanted] for wanted in (1, 0))
    assert len(labelled_1) == len(positives) > 0
    assert set(labelled_1) == positives
    assert all(mates[a] != mates[b] for a, b in negatives)
    assert len(set(negatives)) == len(negatives)
    across = len(step.rows) * (len(step.rows) - 1) // 2 - len(positives)
    assert len(negatives) == min(round(ratio * len(positives)), across)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("ratio", [1.0, 2.5])
def test_every_report_of_a_group_is_dealt_once_an_epoch(world, ratio):
    labelled = corpus_of([5, 3, 2, 2, 4, 2, 7, 3, 2, 2, 6, 2], singles=30, outside=30)
    groups, singles = known(labelled)
    batches = Groups(batch_size=12, seed=0, **SETTINGS | {"negatives_per_positive": ratio})
    counts = set()
    for epoch in range(4):
        dealt = [step for steps in shares(batches, labelled, world) for step in epoch_of(steps, epoch)]
        counts.add(len(dealt))
        met = Counter(row for step in dealt for row in step.rows.tolist())
        assert all(met[row] == 1 for rows in groups.values() for row in rows)
        assert set(met) <= set(np.flatnonzero(labelled.training).tolist())
        for step in dealt:
            check_pairs(step, labelled, ratio)
            assert len(singles & set(step.rows.tolist())) == 3
            for rows in groups.values():
                assert len(rows & set(step.rows.tolist())) in (0, len(rows))
    assert len(counts) == 1


def test_groups_whatever_their_sizes_leave_no_step_without_a_pair():
    rng = np.random.default_rng(0)
    for case in range(150):
        sizes = rng.choice([2, 2, 3, 4, 5, 9, 25], size=rng.integers(1, 12)).tolist()
        labelled = corpus_of(sizes, singles=int(rng.integers(0, 9)), outside=4, seed=case)
        batches = Groups(batch_size=int(rng.integers(5, 20)), seed=case, **SETTINGS)
        world, groups = int(rng.integers(1, 4)), known(labelled)[0]
        dealt = [step for steps in shares(batches, labelled, world) for step in epoch_of(steps, case)]
        assert len(dealt) == world * -(-sum(map(len, groups.values())) // (batches.room * world))
        met = Counter(row for step in dealt for row in step.rows.tolist())
        assert all(met[row] >= 1 for rows in groups.values() for row in rows)
        for step in dealt:
            check_pairs(step, labelled, 1.0)
            assert len(step.rows) < batches.batch_size + batches.room


def test_a_step_by_hand():
    group = np.array([0, 0, 2, 3, 0, 3, 6, 2, 2])
    training = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)  # of group 2, one report is left to train on
    labelled = Labelled(NO_PAIRS, group, training, None)
    (step,) = epoch_of(
        Groups(8, 0, singletons=0.25, negatives_per_positive=1.0, hard=0.0, neighbours=1)(labelled, Share())
    )
    assert step.rows.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert [pair for pair in as_pairs(step) if pair[2] == 1] == [(0, 1, 1), (0, 4, 1), (1, 4, 1), (3, 5, 1)]
    assert len(step.label) == 8
    (most,) = epoch_of(Groups(8, 0, 0.25, negatives_per_positive=100.0, hard=0.0, neighbours=1)(labelled, Share()))
    assert {(a, b) for a, b, label in as_pairs(most) if label == 0} == {
        (a, b) for a, b in combinations(range(7), 2) if group[a] != group[b]
    }


def test_hard_negatives_are_the_most_alike():
    angles = np.radians([0, 90, 10, 180, 95, 200])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    labelled = Labelled(NO_PAIRS, np.array([0, 0, 2, 2, 4, 4]), np.ones(6, dtype=bool), vectors)
    nearest = {(1, 4), (0, 2), (3, 5)}  # 5, 10 and 20 degrees apart; the next two are 80
    for hard, ratio, others in ((1.0, 1.0, 0), (0.5, 2.0, 3), (0.3, 1.0, 2)):
        draws = set()
        for epoch in range(8):
            (step,) = epoch_of(Groups(6, 0, 0.0, ratio, hard, 5)(labelled, Share()), epoch)
            negatives = {(a, b) for a, b, label in as_pairs(step) if label == 0}
            assert {(1, 4)} <= negatives
            assert hard == 0.3 or nearest <= negatives
            draws.add(frozenset(negatives - nearest))
        assert (len(draws) > 1) == (others > 0)


def test_hard_single_reports_come_from_the_nearest():
    rng = np.random.default_rng(0)
    labelled = corpus_of([2, 2], singles=60)
    groups, singles = known(labelled)
    rows, lone = sorted(row for members in groups.values() for row in members), np.array(sorted(singles))
    cosine = labelled.vectors[rows] @ labelled.vectors[lone].T
    nearest = set(lone[cosine.argmax(axis=1)].tolist())
    near = [set(lone[np.argsort(-row)[:3]].tolist()) for row in cosine]
    picks = set()
    for seed in rng.integers(1000, size=20).tolist():
        (step,) = epoch_of(Groups(8, seed, 0.5, 1.0, hard=1.0, neighbours=1)(labelled, Share()))
        assert nearest <= set(step.rows.tolist())
        assert len(step.rows) == 8
        (step,) = epoch_of(Groups(8, seed, 0.5, 1.0, hard=1.0, neighbours=3)(labelled, Share()))
        drawn = set(step.rows.tolist()) & singles
        assert all(drawn & of_report for of_report in near)
        picks.add(frozenset(drawn))
    assert len(picks) > 1
    met = Counter()
    for seed in range(60):
        (step,) = epoch_of(Groups(8, seed, 0.5, 1.0, hard=0.0, neighbours=1)(labelled, Share()))
        met.update(set(step.rows.tolist()) & singles)
    assert len(met) > 50  # none preferred: of 60 singles, 4 are drawn 60 times


def test_a_group_too_large_for_a_step_is_cut_anew_each_epoch():
    labelled = corpus_of([20, 2], singles=5)
    large = max(known(labelled)[0].values(), key=len)
    cuts = set()
    for epoch in range(5):
        dealt = epoch_of(Groups(8, 0, **SETTINGS)(labelled, Share()), epoch)  # room for 6: parts of 5
        assert len(dealt) == 4
        parts = [frozenset(large & set(step.rows.tolist())) for step in dealt]
        assert frozenset.union(*parts) == large
        assert all(len(part) in (0, 5, 10) for part in parts)
        cuts.add(frozenset(parts))
    assert len(cuts) == 5


def test_a_part_of_a_group_is_never_a_report_alone():
    for size in range(4, 40):
        for batch_size in (4, 6, 9):
            labelled = corpus_of([size], singles=9)
            (large,) = known(labelled)[0].values()
            for step in epoch_of(Groups(batch_size, 0, **SETTINGS)(labelled, Share())):
                assert len(large & set(step.rows.tolist())) >= 2


def test_without_single_reports_there_are_groups_alone():
    labelled = corpus_of([2, 3, 4, 2], singles=0)
    for vectors in (None, labelled.vectors):
        dealt = epoch_of(Groups(8, 0, **SETTINGS)(labelled._replace(vectors=vectors), Share()))
        assert sorted(row for step in dealt for row in step.rows.tolist()) == list(range(11))


def test_the_seed_and_the_epoch_fix_the_draws_of_groups():
    labelled = corpus_of([2, 3, 4, 2, 2, 5], singles=20)

    def draws(seed: int, epoch: int) -> list[list[tuple[int, int, int]]]:
        return [as_pairs(step) for step in epoch_of(Groups(8, seed, **SETTINGS)(labelled, Share()), epoch)]

    assert draws(0, 1) == draws(0, 1)
    assert draws(0, 0) != draws(0, 1) != draws(1, 1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"singletons": -0.1}, "batches.singletons=-0.1 must lie between 0 and 0.9"),
        ({"singletons": 1.0}, "batches.singletons=1.0 must lie between 0 and 0.9"),
        ({"hard": 1.1}, r"batches.hard=1.1 must lie between 0 and 1.0"),
        ({"batch_size": 3}, "batches.batch_size=3 must be 4 or more"),
        ({"neighbours": 0}, "batches.neighbours=0 must be 1 or more"),
        ({"negatives_per_positive": 0.0}, "batches.negatives_per_positive=0.0 must be above 0"),
        ({"batch_size": 8, "singletons": 0.75}, "batches.singletons=0.75 leaves 2 of batches.batch_size=8 reports"),
        ({"batch_size": 4, "singletons": 0.9}, "batches.singletons=0.9 leaves 0 of batches.batch_size=4 reports"),
    ],
)
def test_settings_that_deal_nothing_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        Groups(**{"batch_size": 16, "seed": 0} | SETTINGS | setting)
