"""A small training of HMCBL; ``python small_hmcbl.py DATA OUT DEVICES`` is one of several processes."""

import sys
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.optim import SGD

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.experiments.optimizers import constant
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.readers.changesets import read_localization
from gedbd.localization.training.change_inputs import Side, change_inputs, report_inputs, untrained_side
from gedbd.localization.training.hmcbl import HmcblSystem
from gedbd.localization.training.hmcbl_network import CandidateLinks
from gedbd.localization.training.localization_data import LocalizationDataModule, find_halves
from gedbd.localization.training.tower import HmcblSettings

BATCH_SIZE = 6
EPOCHS = 2


def make_side(corpus: ChangeCorpus, limits: InputLimits, hidden: int = 16, dropout: float = 0.0) -> Side:
    """An untrained encoder of two layers."""
    encoder = UntrainedEncoder("untrained", 2, hidden, 2, 16, 500, 512, dropout, 0.0, 0)
    texts = [*corpus.reports.reports["title"], *corpus.commits.table["diff"]]
    side = untrained_side(encoder, texts, limits)
    with torch.no_grad():
        for weight in side.backbone.parameters():
            if weight.dim() == 2:
                weight.mul_(8)  # else all texts have nearly one vector, and their differences are mostly rounding
    return side


def make_data(corpus: ChangeCorpus, reports: Side, changes: Side, batch_size: int) -> LocalizationDataModule:
    """Twelve pairs for training and two for validation, which two processes share evenly."""
    report_rows = report_inputs(reports, corpus.reports.reports)
    change_rows = change_inputs(changes, corpus.hunks.table)
    training = find_halves(corpus).train
    return LocalizationDataModule(corpus, report_rows, change_rows, "hunk", training[1:], 0.15, batch_size, 0, 10)


def sgd(encoders: list[nn.Parameter], projectors: list[nn.Parameter]) -> SGD:
    """Steps in proportion to gradients: Adam makes full steps of gradients that are nothing but rounding.

    Such is the gradient of a bias before batch normalization, where all activations are on one side of 0.
    """
    return SGD([*encoders, *projectors], lr=0.01)


def make_system(corpus: ChangeCorpus, batch_size: int = BATCH_SIZE, dropout: float = 0.0, **settings):
    """A system and its data."""
    reports = make_side(corpus, InputLimits(16, 1, 0), dropout=dropout)
    changes = make_side(corpus, InputLimits(16, 32, 16), dropout=dropout)
    chosen = HmcblSettings(num_layers=2, dim=8, projector_hidden=12, bank_size=30, momentum=0.9, **settings)
    torch.manual_seed(0)
    links = CandidateLinks.of_corpus(corpus)
    system = HmcblSystem(reports, changes, chosen, links, sgd, partial(constant, warmup_steps=1), 0)
    return system, make_data(corpus, reports, changes, batch_size)


def make_trainer(epochs: int, devices: int = 1) -> pl.Trainer:
    """A quiet trainer on CPUs."""
    names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    strategy = DDPStrategy(process_group_backend="gloo") if devices > 1 else "auto"
    options = {"devices": devices, "strategy": strategy, "max_epochs": epochs, **dict.fromkeys(names, False)}
    return pl.Trainer(accelerator="cpu", num_sanity_val_steps=0, **options)


def train(corpus: ChangeCorpus, epochs: int, devices: int = 1, resume: Path | None = None, **options):
    """Trains, and gives the trainer and the system."""
    system, data = make_system(corpus, BATCH_SIZE // devices, **options)
    trainer = make_trainer(epochs, devices)
    trainer.fit(system, data, ckpt_path=resume, weights_only=True if resume else None)
    return trainer, system


def results(trainer: pl.Trainer, system: HmcblSystem) -> dict[str, torch.Tensor]:
    """All weights, banks and metrics."""
    metrics = {name: torch.as_tensor(value) for name, value in trainer.callback_metrics.items() if "/" in name}
    return dict(system.state_dict()) | metrics


if __name__ == "__main__":
    folder, out, count = sys.argv[1:]
    ended = train(read_localization(folder, name="demo"), EPOCHS, int(count))
    torch.save(results(*ended), f"{out}/{ended[0].global_rank}.pt")
