"""What the trainers for large GPUs and for several devices set, and what they leave to others."""

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig
from transformers import AutoModel, BertConfig, DistilBertConfig, ModernBertConfig, MPNetConfig

from gedbd.configuration.command import CONF_DIR
from gedbd.experiments.distributed import FullyShardedStrategy, layers_of


def composed(*options: str) -> DictConfig:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose("train", list(options))


@pytest.mark.parametrize(("trainer", "batch_size"), [("a100", 128), ("a100_80gb", 256)])
def test_a100_sets_what_such_a_gpu_is_bought_for(trainer, batch_size):
    cfg = composed(f"trainer={trainer}")
    assert (cfg.trainer.accelerator, cfg.trainer.precision, cfg.trainer.devices) == ("gpu", "bf16-mixed", 1)
    assert (cfg.batch_size, cfg.compile, cfg.matmul_precision, cfg.optimizer.fused) == (batch_size, True, "high", True)
    assert cfg.batches.batch_size == batch_size
    assert composed(f"trainer={trainer}", "pairs=pk").batches.batch_size == batch_size


def test_the_command_line_and_experiments_count_more_than_the_trainer():
    cfg = composed("trainer=a100", "batch_size=8", "compile=false", "matmul_precision=highest", "trainer.max_epochs=7")
    assert (cfg.batch_size, cfg.batches.batch_size, cfg.compile, cfg.matmul_precision) == (8, 8, False, "highest")
    assert cfg.trainer.max_epochs == 7
    paper = composed("trainer=a100", "experiment=paper")
    assert (paper.batch_size, paper.trainer.max_epochs) == (64, 5)


def test_fsdp_composes_and_its_strategy_can_be_made():
    cfg = composed("trainer=fsdp", "trainer.devices=2", "trainer.accelerator=cpu", "trainer.precision=bf16-mixed")
    trainer = instantiate(cfg.trainer, logger=False, enable_checkpointing=False)
    assert isinstance(trainer.strategy, FullyShardedStrategy)
    assert (trainer.world_size, trainer.strategy.num_processes) == (2, 2)


@pytest.mark.parametrize("config", [BertConfig, DistilBertConfig, MPNetConfig, ModernBertConfig])
def test_the_layers_of_a_transformer_are_found(config):
    with torch.device("meta"):
        backbone = AutoModel.from_config(config())
    layers = layers_of(backbone)
    wanted = {"num_hidden_layers", "n_layers"} & config().to_dict().keys()
    assert len(layers) == config().to_dict()[wanted.pop()]
    assert len({type(layer) for layer in layers}) == 1
    assert layers_of(torch.nn.Linear(2, 2)) == []
