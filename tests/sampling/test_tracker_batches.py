import numpy as np
import pytest
from epochs import NO_PAIRS, as_pairs, epoch_of, of_all_processes

from gedbd.sampling.batches import SamplerInputs
from gedbd.sampling.tracker_batches import TrackerBatches

SIZES = [(2,) * 9 + (4,) + (1,) * 30, (3,) * 4 + (1,) * 10, (2,) * 3 + (1,) * 5]  # of the groups of three trackers
SETTINGS = {"batch_size": 9, "seed": 0, "batches_per_epoch": 12, "per_group": 2, "hard_negatives": 1, "neighbours": 6}
SETTINGS |= {"singletons": 0.0, "negatives_per_positive": 1.0, "hard": 0.0, "skip_nearest": 0, "power": 0.5}


@pytest.fixture
def inputs() -> SamplerInputs:
    """The last tracker does not train."""
    rng = np.random.default_rng(0)
    groups, trackers = [], []
    for sizes in SIZES:
        start = sum(map(len, groups))
        members = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        groups.append(start + np.unique(members, return_index=True)[1][members])
        trackers.append(np.full(len(members), start))
    group, tracker = np.concatenate(groups), np.concatenate(trackers)
    vectors = rng.normal(size=(len(group), 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return SamplerInputs(NO_PAIRS, group, tracker < tracker.max(), vectors, tracker)


def test_a_batch_is_groups_of_one_tracker_with_near_reports_of_other_groups(inputs):
    cosine = inputs.vectors @ inputs.vectors.T
    trackers = []
    for skipped in (0, 2):
        for step in epoch_of(TrackerBatches(**SETTINGS | {"skip_nearest": skipped})(inputs)):
            group, tracker = inputs.observed_group[step.rows], inputs.first_of_tracker[step.rows]
            assert len(set(tracker)) == 1
            assert inputs.training[step.rows].all()
            trackers.append(int(tracker[0]))
            sizes = np.bincount(group)
            paired = set(np.flatnonzero(sizes >= 2).tolist())
            assert len(paired) >= 2
            reports = step.rows[np.isin(group, list(paired))]
            near = set()
            for report in reports:
                own = np.flatnonzero(inputs.first_of_tracker == tracker[0])
                order = own[np.argsort(-cosine[report, own], kind="stable")][
                    : skipped + 7
                ]  # itself, six and skipped ones
                near |= set(order[inputs.observed_group[order] != inputs.observed_group[report]][skipped:].tolist())
            assert set(step.rows.tolist()) - set(reports.tolist()) <= near
            labels = [int(inputs.observed_group[a] == inputs.observed_group[b]) for a, b, _ in as_pairs(step)]
            assert labels == step.label.tolist()
    assert set(trackers) == {0, 52}


def test_groups_are_drawn_once_before_any_is_drawn_again_over_all_epochs(inputs):
    settings = TrackerBatches(**SETTINGS | {"hard_negatives": 0, "batch_size": 4})
    sampler = settings(inputs)
    drawn: dict[int, list[int]] = {0: [], 52: []}
    for epoch in range(6):
        for step in epoch_of(sampler, epoch):
            drawn[int(inputs.first_of_tracker[step.rows[0]])] += set(inputs.observed_group[step.rows].tolist())
    for groups, count in zip(drawn.values(), (10, 4), strict=True):
        rounds = [groups[start : start + count] for start in range(0, len(groups) - count + 1, count)]
        assert len(rounds) > 2
        assert all(len(set(numbers)) == count for numbers in rounds)
        assert len({tuple(numbers) for numbers in rounds}) > 1


def test_the_seed_the_epoch_and_the_process_determine_batches_and_the_power_their_trackers(inputs):
    settings = TrackerBatches(**SETTINGS)
    whole = [step.rows.tolist() for step in epoch_of(settings(inputs), 3)]
    halves = [epoch_of(half, 3) for half in of_all_processes(settings, inputs, 2)]
    assert [step.rows.tolist() for pair in zip(*halves, strict=True) for step in pair] == whole
    assert whole != [step.rows.tolist() for step in epoch_of(settings(inputs), 4)]
    for power, share in ((0, 0.5), (1, 10 / 14), (0.5, 10**0.5 / (10**0.5 + 2))):
        many = TrackerBatches(**SETTINGS | {"batches_per_epoch": 3000, "power": power})(inputs)
        assert np.mean(many._trackers(0) == 0) == pytest.approx(share, abs=0.03)


def test_batches_without_two_groups_of_two_are_refused():
    with pytest.raises(ValueError, match="per_group=2 must be 2 or more, and with batches"):
        TrackerBatches(**SETTINGS | {"hard_negatives": 3})
