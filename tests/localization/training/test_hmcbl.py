"""Training of HMCBL."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_hmcbl
import torch
from small_hmcbl import EPOCHS, make_side, make_system, make_trainer, results, train
from torch import nn
from torch.optim import AdamW

import gedbd
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.training.change_inputs import change_inputs, report_inputs
from gedbd.localization.training.hmcbl import HmcblSystem
from gedbd.localization.training.hmcbl_network import EMPTY, CandidateLinks, HmcblNetwork
from gedbd.localization.training.localization_data import LocalizationDataModule, find_halves, mean_reciprocal_rank
from gedbd.localization.training.tower import HmcblSettings

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def whole(change_corpus):
    """Two epochs with dropout, uninterrupted; not to be changed."""
    return train(change_corpus, EPOCHS, dropout=0.1)


def test_training_logs_every_level_and_fills_the_banks(whole):
    trainer, system = whole
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    for part in ("train", "val"):
        total = sum(metrics[f"{part}/{level}_loss"] for level in ("feature", "model", "bank"))
        assert metrics[f"{part}/loss"] == pytest.approx(total, rel=1e-5)
    assert 0 < metrics["val/mrr"] <= 1
    # Two epochs of 12 pairs with a negative each: 48 keys went through banks of 30.
    for side in (system.network.reports, system.network.changes):
        assert int(side.bank.place) == 48 % 30
        torch.testing.assert_close(side.bank.keys.norm(dim=1), torch.ones(30))


@pytest.mark.parametrize("positives", [True, False])
def test_keys_are_those_of_the_twin_and_rows_those_of_the_corpus(change_corpus, positives):
    system, data = make_system(change_corpus, bank_positives=positives)
    batch = next(iter(data.train_dataloader()))
    system.network.losses(batch, lambda rows: rows, fill_banks=True)
    first = 0 if positives else 6  # of the rows, the negatives come last
    changes, reports = system.network.changes, system.network.reports
    assert changes.bank.rows[: 12 - first].tolist() == batch.commit_rows[first:].tolist()
    assert reports.bank.rows[: 12 - first].tolist() == batch.n_id[first:].tolist()
    assert torch.equal(changes.bank.keys[: 12 - first], changes.keys(batch.changes)[first:])
    assert int(changes.bank.place) == 12 - first


def test_late_interaction_projects_each_token(change_corpus):
    system, data = make_system(change_corpus, similarity="max_sim")
    batch = next(iter(data.train_dataloader()))
    losses = system.network.losses(batch, lambda rows: rows, fill_banks=True)
    assert set(losses) == {"feature", "model", "bank"}
    sum(losses.values()).backward()
    assert all(weight.grad is not None for weight in system.towers[1].projector.parameters())
    # A key, and the vector that ranks, is the mean of the projected tokens, each of length 1.
    side = system.network.changes
    tower = side.twin.module
    read = tower.read(batch.changes)
    for row, key in enumerate(side.bank.keys[:12]):
        own = nn.functional.normalize(tower.projector(read.tokens[row][read.is_text[row]]), dim=1)
        torch.testing.assert_close(nn.functional.normalize(own.mean(0), dim=0), key)
    encoded = system.encode("changes", data.changes, np.array([3, 8, 1]), tokens=True)
    for row, vector in enumerate(encoded.projected):
        own = encoded.tokens[encoded.starts[row] : encoded.starts[row + 1]].astype(np.float32).mean(axis=0)
        np.testing.assert_allclose(vector, own / np.linalg.norm(own), atol=2e-3)


def test_the_banks_never_give_a_report_its_own_positives(change_corpus):
    system, data = make_system(change_corpus)
    network = system.network
    links = network.links
    for epoch in range(3):
        for number, batch in enumerate(data.train_dataloader()):
            reports = batch.n_id[: len(batch.n_id) // 2]
            allowed = links.are_negatives(reports[:, None], network.changes.bank.rows)
            for report, kept in zip(reports.tolist(), allowed, strict=True):
                inducing = set(change_corpus.inducing["commit"].relevant(report).tolist())
                assert not inducing & set(network.changes.bank.rows[kept].tolist())
                if epoch and number:
                    assert inducing & set(network.changes.bank.rows[~kept].tolist())
            network.losses(batch, lambda rows: rows, fill_banks=True)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("options", [{"dropout": 0.1}, {"train_encoders": False}])
def test_a_halted_training_goes_on_as_if_it_had_not_stopped(change_corpus, whole, tmp_path, options):
    trainer, _ = train(change_corpus, 1, **options)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    found = results(*train(change_corpus, EPOCHS, resume=tmp_path / "last.ckpt", **options))
    expected = results(*(whole if "dropout" in options else train(change_corpus, EPOCHS, **options)))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.slow  # two processes
@pytest.mark.no_cover
def test_two_processes_agree_with_one(change_corpus, localization_folder, tmp_path):
    expected = results(*train(change_corpus, EPOCHS))
    environment = os.environ | {"PYTHONPATH": str(Path(gedbd.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, small_hmcbl.__file__, str(localization_folder), str(tmp_path), "2"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    mine, theirs = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert mine.keys() == expected.keys()
    for name, value in expected.items():
        if "/" not in name:
            assert torch.equal(theirs[name], mine[name]), name
        torch.testing.assert_close(mine[name], value, rtol=0, atol=1e-4, msg=name, check_dtype=False)


@pytest.mark.parametrize("off", ["feature", "model", "bank"])
def test_a_level_is_left_out(change_corpus, off):
    system, data = make_system(change_corpus, **{f"{off}_level": 0})
    losses = system.network.losses(next(iter(data.train_dataloader())), lambda rows: rows, fill_banks=True)
    assert set(losses) == {"feature", "model", "bank"} - {off}
    assert any("twin" in name for name in system.state_dict()) == (off != "bank")


def test_encoding_does_not_depend_on_the_batch(change_corpus, whole):
    _, system = whole
    _, data = make_system(change_corpus)
    rows = np.array([5, 0, 9, 3])
    together = system.encode("changes", data.changes, rows, tokens=True)
    assert together.tokens is not None
    assert together.starts is not None
    np.testing.assert_allclose(np.linalg.norm(together.projected, axis=1), 1, rtol=1e-5)
    for number, row in enumerate(rows.tolist()):
        alone = system.encode("changes", data.changes, np.array([row]), tokens=True)
        np.testing.assert_allclose(together.projected[number], alone.projected[0], atol=1e-5)
        np.testing.assert_allclose(together.features[number], alone.features[0], atol=1e-5)
        tokens = together.tokens[together.starts[number] : together.starts[number + 1]]
        np.testing.assert_allclose(tokens, alone.tokens, atol=2e-3)
        blocks = data.changes[row].blocks
        assert len(tokens) == blocks[0, 1] + blocks[1, 1]


def test_features_are_the_means_of_the_last_layers(change_corpus):
    system, data = make_system(change_corpus)
    tower = system.towers[0].eval()
    batch = data.train_dataloader().dataset[next(iter(data.train_dataloader().sampler))].reports
    read = tower.read(batch)
    mask = batch.is_token
    # A report has no graph: comment, [C] and [SEP] are all there is to attend to, which the mask of code restricts.
    assert read.tokens.shape[-1] == tower.width == 2 * 16
    expected = [tokens[keep].mean(0) for tokens, keep in zip(read.tokens, batch.inside("comment") & mask, strict=True)]
    torch.testing.assert_close(tower.pool(read), torch.stack(expected))


def test_encoders_of_different_widths_need_the_feature_level_off(change_corpus):
    sides = [make_side(change_corpus, InputLimits(16, 32, 16), hidden) for hidden in (16, 8)]
    links = CandidateLinks.of_corpus(change_corpus)
    with pytest.raises(ValueError, match=r"set task\.model\.settings\.feature_level=0"):
        HmcblNetwork(*sides, HmcblSettings(num_layers=2), links)
    HmcblNetwork(*sides, HmcblSettings(num_layers=2, feature_level=0), links)
    with pytest.raises(ValueError, match="num_layers=4, but an encoder has only 2 layers"):
        HmcblSystem(*sides, HmcblSettings(feature_level=0), links, lambda a, b: None, lambda a, b: None, 0)


def test_projectors_are_trained_alone(change_corpus):
    before, data = make_system(change_corpus, train_encoders=False, bank_level=1.0)
    trainer, after = train(change_corpus, 1, dropout=0.1, train_encoders=False)
    assert "train/feature_loss" not in trainer.callback_metrics
    for mine, theirs in zip(before.towers, after.towers, strict=True):
        for first, second in zip(mine.backbone.parameters(), theirs.backbone.parameters(), strict=True):
            assert torch.equal(first, second)
        assert not torch.equal(mine.projector.first.weight, theirs.projector.first.weight)
    # Each text alone gives what a batch of an encoder that is trained gives, but for rounding.
    trained, _ = make_system(change_corpus)
    rows = np.array([3, 8, 1])
    expected = trained.encode("changes", data.changes, rows).features
    np.testing.assert_allclose(before.encode("changes", data.changes, rows).features, expected, atol=1e-5)


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
    ("epochs", "lr", "settings"),
    [
        (10, 0.01, {"train_encoders": False}),
        (20, 0.003, {"model_level": 0, "bank_level": 0}),
        (20, 0.003, {"feature_level": 0, "bank_level": 0}),
        (20, 0.003, {"feature_level": 0, "model_level": 0}),
    ],
)
@pytest.mark.quick_cases(1)
def test_reports_find_the_change_that_induced_earlier_bugs_of_their_class(first_changes_corpus, epochs, lr, settings):
    corpus = first_changes_corpus
    sides = make_side(corpus, InputLimits(16, 1, 0)), make_side(corpus, InputLimits(16, 32, 16))
    inputs = report_inputs(sides[0], corpus.reports.reports), change_inputs(sides[1], corpus.hunks.table)
    data = LocalizationDataModule(corpus, *inputs, "hunk", np.concatenate(find_halves(corpus)[:2]), 0.34, 6, 0, 20)
    system, _ = make_system(corpus, **settings)
    system.make_optimizer = lambda encoders, projectors: AdamW([*encoders, *projectors], lr=lr)

    def measured():
        reports = system.pooled(system.encode("reports", data.reports, data.ranked.reports))
        changes = system.pooled(system.encode("changes", data.changes, data.ranked.changes))
        return mean_reciprocal_rank(data.ranked, reports, changes)

    untrained = measured()
    make_trainer(epochs).fit(system, data)
    assert measured() > untrained + 0.2
