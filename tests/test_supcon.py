"""The SupCon SBERT paper under one name, and what its shorter presets shorten."""

import sys

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

import gedbd.train
from gedbd.configuration.command import CONF_DIR

PUBLISHED_ROWS = (92_370, 11_675, 11_769)


def composed(*options: str) -> DictConfig:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose("train", list(options))


def test_the_published_settings():
    cfg = composed("experiment=supcon_paper", "encoder=minilm")
    assert (cfg.dataset.name, cfg.dataset.rows.reports) == ("firefox", sum(PUBLISHED_ROWS))
    assert (cfg.split._target_, cfg.split.val, cfg.split.test) == ("gedbd.sampling.splits.GroupSplit", 0.1, 0.1)
    assert (cfg.encoder.model, cfg.encoder.pooling) == ("sentence-transformers/all-MiniLM-L6-v2", "mean")
    assert (cfg.batch_size, cfg.batches.per_group, cfg.batches.singletons) == (32, 2, 0.0)
    assert (cfg.loss._target_, cfg.loss.temperature) == ("gedbd.losses.SupervisedContrastiveLoss", 0.07)
    assert (cfg.optimizer.lr, cfg.trainer.max_epochs) == (2e-5, 100)
    assert cfg.text.order[:6] == ["product", "component", "os", "priority", "summary", "description"]
    assert (cfg.text.tokens, cfg.text.captions, set(cfg.text.cleaning.values())) == (
        None,
        None,
        {"gedbd.text.cleaning.Cleaning", "keep"},
    )
    assert (list(cfg.ranking.protocols), cfg.monitor, cfg.patience) == (["test_pool"], "val/pool_rr@10", 10)
    assert cfg.graph.rule is None


@pytest.mark.slow  # a training
def test_it_runs_on_the_demo(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    small = ["dataset=demo", "encoder=tiny", "encoder.max_tokens=64", "trainer.max_epochs=1", "hydra.run.dir=run"]
    quiet = ["trainer.accelerator=cpu", "trainer.enable_progress_bar=false"]
    monkeypatch.setattr(sys, "argv", ["gedbd", "experiment=supcon_paper", *small, *quiet])
    gedbd.train.main()
    state = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    projection = state["encoder.projection.weight"]  # orthonormal as it began, so that it stands for none
    torch.testing.assert_close(projection @ projection.T, torch.eye(len(projection)), rtol=0, atol=1e-5)
    pool = pd.read_csv(tmp_path / "run" / "ranking_test_pool.csv")
    assert {"rr@1", "rr@5", "rr@10", "rr@20", "mrr", "map@10"} <= set(pool)
    assert not (tmp_path / "run" / "ranking.csv").exists()
