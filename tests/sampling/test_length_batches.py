"""Batches of similar length: each document once, the same for a seed and an epoch, equally many for all processes."""

from itertools import chain

import numpy as np
import pytest

from gedbd.sampling.batches import LengthBatchSampler

ROWS = np.arange(100, 203)
LENGTHS = np.random.default_rng(0).integers(5, 500, 103)


def batches(**changes) -> list[list[int]]:
    settings = {"batch_size": 8, "seed": 1, "pool_batches": 5} | changes
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
    padded = sum(len(batch) * LENGTHS[np.array(batch) - 100].max() for batch in batches(pool_batches=100))
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


def test_more_processes_than_documents() -> None:
    samplers = [LengthBatchSampler(ROWS[:3], LENGTHS[:3], 2, 0, rank, 8) for rank in range(8)]
    assert [[len(batch.rows) for batch in sampler] for sampler in samplers] == 8 * [[1]]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="the training part is empty"):
        LengthBatchSampler(ROWS[:0], LENGTHS[:0], 2, 0)
