from collections import Counter
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from epochs import ONE_TRACKER, as_pairs, epoch_of, of_all_processes

from gedbd.sampling.batches import LengthBatchSampler, PairBatches, SamplerInputs
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import TimeSplit, split_corpus

ROWS = np.arange(100, 203)
LENGTHS = np.random.default_rng(0).integers(5, 500, 103)


def batches(**changes) -> list[list[int]]:
    settings = {"batch_size": 8, "seed": 1} | changes
    epoch = settings.pop("epoch", 0)
    sampler = LengthBatchSampler(ROWS, LENGTHS, **settings)
    sampler.set_epoch(epoch)
    drawn = [batch.rows.tolist() for batch in sampler]
    assert len(drawn) == len(sampler)
    return drawn


def test_each_document_is_drawn_once_an_epoch() -> None:
    drawn = batches()
    assert sorted(chain(*drawn)) == ROWS.tolist()
    assert sorted(map(len, drawn)) == [7, *12 * [8]]
    assert drawn == batches()
    assert drawn != batches(seed=2)
    assert drawn != batches(epoch=1)


def test_batches_need_little_padding() -> None:
    padded = sum(len(batch) * LENGTHS[np.array(batch) - 100].max() for batch in batches())
    unsorted = sum(8 * LENGTHS[start : start + 8].max() for start in range(0, 103, 8))
    assert padded < 1.1 * LENGTHS.sum()
    assert unsorted > 1.5 * LENGTHS.sum()


def test_processes_share_the_documents_and_have_equally_many_batches() -> None:
    shares = [batches(rank=rank, world_size=2) for rank in range(2)]
    assert len(shares[0]) == len(shares[1]) == 7
    assert sorted(set(chain(*shares[0], *shares[1]))) == ROWS.tolist()
    for left, right in zip(*shares, strict=True):
        assert len(left) == len(right)
        difference = LENGTHS[np.array(left) - 100].mean() - LENGTHS[np.array(right) - 100].mean()
        assert abs(difference) < 40


def test_more_processes_than_documents_share_them_and_none_is_refused() -> None:
    samplers = [LengthBatchSampler(ROWS[:3], LENGTHS[:3], 2, 0, rank, 8) for rank in range(8)]
    assert [[len(batch.rows) for batch in sampler] for sampler in samplers] == 8 * [[1]]
    with pytest.raises(ValueError, match="the training split is empty"):
        LengthBatchSampler(ROWS[:0], LENGTHS[:0], 2, 0)


@pytest.fixture
def inputs(make_corpus) -> SamplerInputs:
    """Training pairs of 200 reports, of which 80 are in groups of 2 to 6."""
    rng = np.random.default_rng(0)
    group = np.arange(200)
    rows = rng.permutation(200)[:80]
    for members in np.split(rows, np.cumsum([2] * 10 + [3] * 8 + [4] * 4 + [6] * 3)):
        group[members] = members.min(initial=200)
    corpus, split = make_corpus(group, days=range(200)), TimeSplit()
    pairs = PairSampler(random_negatives=30).sample(corpus, split).table
    return SamplerInputs(pairs[pairs["part"] == "train"], group, split_corpus(split, corpus) == 0, None, ONE_TRACKER)


def test_every_pair_occurs_once_an_epoch(inputs):
    expected = Counter(map(tuple, inputs.pairs[["earlier", "later", "label"]].to_numpy().tolist()))
    orders = []
    for epoch in range(3):
        drawn = epoch_of(PairBatches(8, seed=0)(inputs), epoch)
        assert [len(step.label) for step in drawn[:-1]] == [8] * (len(drawn) - 1)
        orders.append([pair for step in drawn for pair in as_pairs(step)])
        assert Counter(orders[-1]) == expected
        for step in drawn:
            assert step.rows.tolist() == sorted(set(step.pairs.flatten().tolist()))
    assert orders[0] != orders[1] != orders[2]


def test_pairs_of_a_group_lie_together_and_fewer_reports_are_encoded(inputs):
    drawn = epoch_of(PairBatches(8, seed=0)(inputs))
    size = Counter(inputs.observed_group.tolist())
    met = []
    for earlier, later, _ in (pair for step in drawn for pair in as_pairs(step)):
        of_group = [row for row in (earlier, later) if size[inputs.observed_group[row]] > 1] or [earlier]
        met.append(inputs.observed_group[of_group[0]])
    runs = [group for place, group in enumerate(met) if place == 0 or met[place - 1] != group]
    assert len(runs) == len(set(met))
    ends, rng = inputs.pairs[["earlier", "later"]].to_numpy(), np.random.default_rng(0)
    order = rng.permutation(len(ends))
    shuffled = sum(len(np.unique(ends[order[start : start + 8]])) for start in range(0, len(order), 8))
    assert sum(len(step.rows) for step in drawn) < 0.8 * shuffled


def test_shuffled_pairs_of_a_group_lie_apart(inputs):
    drawn = {shuffle: epoch_of(PairBatches(8, seed=0, shuffle=shuffle)(inputs)) for shuffle in (False, True)}
    pairs = {shuffle: Counter(pair for step in steps for pair in as_pairs(step)) for shuffle, steps in drawn.items()}
    assert pairs[True] == pairs[False]
    encoded = {shuffle: sum(len(step.rows) for step in steps) for shuffle, steps in drawn.items()}
    assert encoded[True] > 1.25 * encoded[False]
    again = epoch_of(PairBatches(8, seed=0, shuffle=True)(inputs))
    assert [as_pairs(step) for step in again] == [as_pairs(step) for step in drawn[True]]


def test_two_processes_share_the_steps_of_one(inputs):
    even = inputs._replace(pairs=inputs.pairs[: len(inputs.pairs) // 2 * 2])
    one = epoch_of(PairBatches(12, seed=0)(even), 3)
    halves = [epoch_of(steps, 3) for steps in of_all_processes(PairBatches(6, seed=0), even, 2)]
    assert [as_pairs(step) for step in one] == [as_pairs(a) + as_pairs(b) for a, b in zip(*halves, strict=True)]
    assert all(len(a.label) == len(b.label) for a, b in zip(*halves, strict=True))


def test_processes_that_fall_short_repeat_the_first_pairs():
    pairs = pd.DataFrame({"earlier": range(7), "later": range(7, 14), "label": [1, 0, 1, 0, 1, 0, 1]})
    inputs = SamplerInputs(pairs, np.arange(14), np.ones(14, dtype=bool), None, ONE_TRACKER)
    alone = [pair for step in epoch_of(PairBatches(100, seed=0)(inputs)) for pair in as_pairs(step)]
    halves = [epoch_of(steps) for steps in of_all_processes(PairBatches(3, seed=0), inputs, 2)]
    assert [len(half) for half in halves] == [2, 2]
    assert [pair for a, b in zip(*halves, strict=True) for pair in as_pairs(a) + as_pairs(b)] == [*alone, alone[0]]
