"""Trains an encoder: ``gedbd.fit``."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from omegaconf import OmegaConf

from gedbd.api.calls import Options, long_call, option_words, own_random_numbers
from gedbd.api.corpora import dataset_options
from gedbd.api.encoder import Encoder
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import Corpus

if TYPE_CHECKING:
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.loggers import Logger
    from torch import nn


@dataclass(frozen=True)
class TrainingRun:
    """A finished training run.

    Attributes:
        folder: The run folder, for the commands' option ``run=``.
        results: One row per method, the trained model first: precision, recall, F1 and more on test pairs.
        ranking: One row per method: RR@k, MRR and MAP of test queries; empty without ranking.
        epochs: One row per epoch: losses and metrics of training and validation.
        encoder: The trained encoder of the best epoch on validation.
    """

    folder: Path
    results: pd.DataFrame = field(repr=False)
    ranking: pd.DataFrame = field(repr=False)
    epochs: pd.DataFrame = field(repr=False)
    encoder: Encoder = field(repr=False)

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the trained model on the test split by name, such as ``f1``, ``rr@10`` and ``mrr``."""
        values: dict[str, float] = {}
        for table in (self.results, self.ranking):
            if len(table):
                numbers = table.select_dtypes("number").iloc[0]
                values |= {str(name): float(value) for name, value in numbers.items()}
        return values


def fit(
    corpus: Corpus,
    *options: str,
    loss: "nn.Module | None" = None,
    callbacks: "Sequence[Callback]" = (),
    logger: "Logger | Sequence[Logger]" = (),
    folder: str | Path | None = None,
    more: Options = (),
) -> TrainingRun:
    """Trains an encoder on the duplicates of a corpus, and tests it; the same as ``gedbd train``.

    Args:
        corpus: The reports, see ``load_corpus``.
        options: Options as on the command line, such as ``"encoder=roberta"`` and ``"loss.margin=0.3"``.
        loss: A module with ``reads`` and ``forward(z, step)`` instead of one of ``conf/loss``, see
            ``gedbd.losses``.
        callbacks: Further callbacks of Lightning.
        logger: Further loggers of Lightning.
        folder: The run folder, which must not exist; None for a new one in ``outputs/CORPUS/ENCODER``.
        more: Further options as a dictionary: ``{"trainer.max_epochs": 2}``.

    Raises:
        ValueError: If an option is unknown or invalid, or the corpus has too few duplicates.

    Example:
        >>> import gedbd
        >>> corpus = gedbd.load_corpus("demo")
        >>> run = gedbd.fit(corpus, "encoder=tiny", "trainer.max_epochs=1", folder="first")
        >>> bool(run.epochs["train/loss"].notna().all())
        True
        >>> run.encoder.encode(["Crash on paste"]).shape
        (1, 16)
    """
    with long_call():
        cfg = compose_options("train", ["dataset=demo", *options, *option_words(more)])
        cfg.dataset = dataset_options(corpus)
        run_folder = _new_folder(folder, corpus, cfg.encoder.name)
        from hydra.utils import instantiate

        from gedbd.configuration.option_types import check_trainer
        from gedbd.experiments.loggers import check_loggers
        from gedbd.experiments.run_folder import record_overrides
        from gedbd.experiments.seeds import check_device
        from gedbd.experiments.training_summary import preset_line
        from gedbd.experiments.training_task import GivenObjects, TakesObjects
        from gedbd.io.console import open_console, print_detail

        check_trainer(cfg.trainer)
        check_loggers(cfg.logger)
        check_device(cfg.trainer)
        if cfg.seeds != 1:
            raise ValueError(f"seeds={cfg.seeds}: call fit once per seed, with seed=")
        task: Any = instantiate(cfg.task)
        if not isinstance(task, TakesObjects):
            raise ValueError(f"{type(task).__name__} takes no corpus in Python: train it with gedbd train")
        if loss is not None:
            arguments = {name: getattr(loss, name, None) for name in inspect.signature(type(loss)).parameters}
            plain = {name: value for name, value in arguments.items() if isinstance(value, (bool, int, float, str))}
            cfg.loss = OmegaConf.create({"_target_": f"{type(loss).__module__}.{type(loss).__qualname__}", **plain})
        loggers = list(logger) if isinstance(logger, Sequence) else [logger]
        task.given = GivenObjects(corpus, loss, tuple(callbacks), tuple(loggers))
        words = [*options, *option_words(more)]
        print_detail(open_console(), preset_line(words))
        with own_random_numbers(cfg.seed):
            task.train(cfg, run_folder, open_console())
        record_overrides(run_folder, words if loss is None else [*words, f"loss={type(loss).__qualname__}"])
        files = {name: run_folder / f"{name}.csv" for name in ("results", "ranking", "metrics")}
        tables = {name: pd.read_csv(file) if file.is_file() else pd.DataFrame() for name, file in files.items()}
        return TrainingRun(run_folder, tables["results"], tables["ranking"], tables["metrics"], Encoder(run_folder))


def _new_folder(folder: str | Path | None, corpus: Corpus, encoder: str) -> Path:
    """The new folder of the run."""
    from gedbd.configuration.options import own_folders, run_dir

    if folder is None:
        with own_folders():
            return Path(run_dir(None, corpus.name, None, encoder))
    path = Path(folder)
    if path.exists():
        raise ValueError(f"folder={path} exists: give the name of a new folder")
    return path
