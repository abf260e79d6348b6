"""The weights of the encoder that a backtest takes from a training run."""

from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from gedbd.experiments.checkpoint import use_run


class RunWeights(NamedTuple):
    """The weights of a trained encoder.

    Attributes:
        test: What the test part, and an index, are encoded with.
        val: What the validation part is replayed with: weights that have not learnt from it.
    """

    test: Path
    val: Path


def run_weights(cfg: DictConfig) -> RunWeights:
    """The weights of ``cfg.run``, whose encoder and text replace those of the configuration.

    Raises:
        ValueError: If the folder is no run, has no such checkpoint, or was trained on other parts or labels.
    """
    folder = Path(cfg.run)
    return RunWeights(use_run(cfg, folder, cfg.weights), use_run(cfg, folder, "best"))
