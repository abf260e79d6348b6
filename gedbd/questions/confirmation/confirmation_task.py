"""Predicts when duplicates are confirmed: fits all methods on the same anchors and compares them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.node2vec import TagEncoder
from gedbd.experiments.corpus_reading import print_fields, read_corpus
from gedbd.experiments.loggers import open_loggers
from gedbd.experiments.run_folder import save_run
from gedbd.io.console import print_detail, print_line, silence_library_logs
from gedbd.questions.confirmation.anchors import assemble
from gedbd.questions.confirmation.confirmation_results import MEDIAN, measure, write_result
from gedbd.questions.confirmation.regression_methods import RegressionMethod
from gedbd.sampling.splits import split_corpus


@dataclass(eq=False)
class ConfirmationTask:
    """Regression of the time until a duplicate is confirmed, see ``gedbd.experiments.training_task.Task``.

    It trains no encoder and keeps no checkpoint: an interrupted run starts again, with the cached vectors of
    its texts.

    Raises:
        ValueError: If there is no method ``median``.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"split", "encoder", "backend", "tags"})

    # methods by id; one of them is ``median``, with which the others are compared
    methods: Mapping[str, RegressionMethod]
    only_known: bool = True  # leave out training anchors whose link was made after the next split begins
    min_minutes: float = 1.0  # shorter times count as this long
    fields: Sequence[str] = ()  # columns of categories that the asker fills in, see ``question_features``
    published: bool = False  # write the paper's table beside the measured numbers

    def __post_init__(self) -> None:
        if MEDIAN not in self.methods:
            raise ValueError(f"task.methods has no {MEDIAN}, with which the others are compared: add it")
        self.methods = dict(self.methods)
        self.fields = tuple(self.fields)

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Compares the methods; returns the best Spearman's rho on validation."""
        silence_library_logs()
        seed_everything(cfg.seed, verbose=False)
        corpus = read_corpus(cfg.dataset)
        encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
        wanted = {name for method in self.methods.values() for name in method.features}
        tag_encoder: TagEncoder | None = None
        if "network" in wanted and cfg.tags is not None:
            tag_encoder = instantiate(cfg.tags)
        parts = split_corpus(instantiate(cfg.split), corpus)
        options = (self.only_known, self.min_minutes, self.fields)
        data, warnings = assemble(corpus, parts, wanted, encoder, tag_encoder, *options)
        print_fields(console, corpus)
        for warning in (*corpus.warnings, *warnings):
            print_line(console, f"{corpus.name}: {warning}")
        save_run(folder, cfg, corpus)
        with open_loggers(cfg, folder, "train") as loggers:
            available_features = set(data.features)
            usable = {
                name: method for name, method in self.methods.items() if set(method.features) <= available_features
            }
            left_out = [name for name in self.methods if name not in usable]
            if left_out:
                message = f"{corpus.name}: there are no tags, so these methods are left out: {', '.join(left_out)}"
                print_line(console, message)
            predictions = {}
            for name, method in usable.items():
                print_detail(console, f"fit {name} on {data.train.sum():,} anchors")
                predictions[name] = method.predict(data)
            result = measure(corpus, data, usable, predictions)
            write_result(folder, result, self.published, loggers, console)
        return result.validation
