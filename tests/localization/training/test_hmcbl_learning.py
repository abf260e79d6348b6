"""What the losses of hierarchical momentum contrast train, and that they teach what can be learnt."""

import numpy as np
import pytest
import torch
from small_hmcbl import make_side, make_system, make_trainer
from torch.optim import AdamW

from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.training.change_inputs import ChangeInputs, ReportInputs
from gedbd.localization.training.hmcbl_network import EMPTY, CandidateLinks
from gedbd.localization.training.localization_data import LocalizationDataModule, mean_reciprocal_rank
from gedbd.localization.training.localization_protocol import find_halves


def test_gradients_reach_both_towers_and_neither_twins_nor_banks(change_corpus):
    system, data = make_system(change_corpus)
    for batch in data.train_dataloader():
        losses = system.network.losses(batch, lambda rows: rows, fill_banks=True)
    losses["bank"].backward()  # of the second step: the banks have keys
    for side in (system.network.reports, system.network.changes):
        for part in (side.tower.backbone, side.tower.projector):
            assert any(weight.grad is not None and weight.grad.abs().max() > 0 for weight in part.parameters())
        assert not any(weight.requires_grad for weight in side.twin.parameters())
        assert not side.bank.keys.requires_grad
        assert not any(module.training for module in side.twin.modules())


@pytest.mark.parametrize("seed", range(5))
def test_negatives_of_random_links_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    num_reports, num_commits = int(rng.integers(1, 12)), int(rng.integers(1, 15))
    before = rng.integers(0, num_commits + 1, num_reports)
    count = int(rng.integers(0, 30))
    pairs = np.stack([rng.integers(0, num_reports, count), rng.integers(0, num_commits, count)])
    links = CandidateLinks(before, pairs, num_commits)
    reports = np.append(rng.integers(0, num_reports, 20), EMPTY)
    commits = np.append(rng.integers(0, num_commits, 20), EMPTY)
    found = links.are_negatives(torch.from_numpy(reports)[:, None], torch.from_numpy(commits))
    linked = set(map(tuple, pairs.T.tolist()))
    expected = [
        [r >= 0 and c >= 0 and c < before[r] and (r, c) not in linked for c in commits.tolist()]
        for r in reports.tolist()
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("lr", "settings"),
    [
        (0.01, {"train_encoders": False}),
        pytest.param(0.003, {"model_level": 0, "bank_level": 0}, marks=pytest.mark.slow),
        pytest.param(0.003, {"feature_level": 0, "bank_level": 0}, marks=pytest.mark.slow),
        pytest.param(0.003, {"feature_level": 0, "model_level": 0}, marks=pytest.mark.slow),
    ],
)
def test_reports_find_the_change_that_induced_earlier_bugs_of_their_class(first_changes_corpus, lr, settings):
    corpus = first_changes_corpus
    sides = make_side(corpus, InputLimits(16, 1, 0)), make_side(corpus, InputLimits(16, 32, 16))
    inputs = ReportInputs(sides[0], corpus.reports.reports), ChangeInputs(sides[1], corpus.hunks.table)
    data = LocalizationDataModule(corpus, *inputs, "hunk", np.concatenate(find_halves(corpus)[:2]), 0.34, 6, 0, 20)
    system, _ = make_system(corpus, **settings)
    system.make_optimizer = lambda encoders, projectors: AdamW([*encoders, *projectors], lr=lr)

    def measured():
        reports = system.pooled(system.encode_reports(data.reports, data.ranked.reports))
        changes = system.pooled(system.encode_changes(data.changes, data.ranked.changes))
        return mean_reciprocal_rank(data.ranked, reports, changes)

    untrained = measured()
    make_trainer(20).fit(system, data)
    assert measured() > untrained + 0.2
