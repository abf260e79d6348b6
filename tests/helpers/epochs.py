"""Epochs of batches, for the tests of all samplers."""

import numpy as np
import pandas as pd

from gedbd.sampling.batches import Batches, BatchIndices, BatchSampler, SamplerInputs

NO_PAIRS = pd.DataFrame({"earlier": [], "later": [], "label": []}, dtype=np.int64)
ONE_TRACKER = np.zeros(0, dtype=np.int64)  # not read by samplers of one tracker


def as_pairs(step: BatchIndices) -> list[tuple[int, int, int]]:
    return [(*map(int, ends), int(label)) for ends, label in zip(step.pairs, step.label, strict=True)]


def epoch_of(steps: BatchSampler, epoch: int = 0) -> list[BatchIndices]:
    steps.set_epoch(epoch)
    drawn = list(steps)
    assert len(drawn) == len(steps)
    for step in drawn:
        assert (np.diff(step.rows) > 0).all()  # distinct, in the order of the corpus
        assert np.isin(step.pairs, step.rows).all()
        assert (step.pairs[:, 0] < step.pairs[:, 1]).all()
        assert len(step.label) == len(step.pairs)
    return drawn


def of_all_processes(batches: Batches, inputs: SamplerInputs, world_size: int) -> list[BatchSampler]:
    return [batches(inputs, rank, world_size) for rank in range(world_size)]
