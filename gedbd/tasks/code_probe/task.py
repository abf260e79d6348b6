"""What pre-training taught encoders about code: probes of frozen encoders and search after a short training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import split_corpus
from gedbd.encoders.code.encoder import SavedEncoder, load_code_encoder
from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.tracking.runs import open_loggers
from gedbd.io.console import print_line, silence_library_logs
from gedbd.tasks.code_probe.comparison import by_seed, compared_pairs, differences_table, results_table, value_of
from gedbd.tasks.code_probe.data import ProbeData, SampleSizes, read_data
from gedbd.tasks.code_probe.encoding import ProbedEncoder, untrained_copy
from gedbd.tasks.code_probe.fine_tuning import FineTuning
from gedbd.tasks.code_probe.probes import Measured, probe_baselines, probe_encoder
from gedbd.tasks.code_probe.result import ProbeResult, validation_of
from gedbd.tasks.code_probe.runs import ENCODER, check_same_corpus, find_encoders, group_by_split
from gedbd.tasks.code_probe.writing import write_result

UNTRAINED = "untrained"


class EncoderRun(NamedTuple):
    """An encoder, the method of ``task.runs`` that it is of, and the folder of its run."""

    method: str
    run: str
    encoder: ProbedEncoder


class CodeProbeTask:
    """Probes of the encoders of ``task=pretraining``, see ``gedbd.experiments.training_task.Task``.

    Args:
        runs: By method, run folders, see ``find_encoders``; run i of one method is compared with run i of another,
            and both are tested on the methods that the split of these runs holds out.
        against: The method that the others are compared with, where it is among ``runs``.
        untrained: Probe an encoder with random weights for each run of the method with the most runs.
        sizes: How much the probes read.
        fine_tuning: How encoders are trained for search.

    Raises:
        ValueError: If a method has the name of a baseline.
    """

    reads: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        runs: Mapping[str, Sequence[str]],
        against: str,
        untrained: bool,
        sizes: SampleSizes,
        fine_tuning: FineTuning,
    ) -> None:
        for name in (UNTRAINED, "majority", "identifier", "name_and_distance", "bm25"):
            if name in runs:
                raise ValueError(f"task.runs.{name}: {name} is the name of a baseline: choose another one")
        self.runs = runs
        self.against = against
        self.untrained = untrained
        self.sizes = sizes
        self.fine_tuning = fine_tuning

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """See ``Task.train``; returns the mean accuracy on validation of the first method's probes."""
        silence_library_logs()
        seed_everything(cfg.seed, verbose=False)
        runs = find_encoders(self.runs)
        corpus: Corpus = instantiate(cfg.dataset)
        for run in dict.fromkeys(run for several in runs.values() for run in several):
            check_same_corpus(run, corpus.fingerprint)
        groups = group_by_split(runs)
        read = []
        for split, numbers in groups:
            encoders = self._encoders(runs, numbers, cfg)
            read.append((encoders, self._read(corpus, split, encoders, cfg.seed)))
        found = [warning for encoders, data in read for warning in (*data.warnings, *_size_warnings(encoders))]
        for warning in dict.fromkeys([*corpus.warnings, *found]):
            print_line(console, f"{corpus.name}: {warning}")
        save_run(folder, cfg, corpus)
        with open_loggers(cfg, folder, "train") as loggers:
            result = self._probe(corpus.name, tuple(runs), read, cfg.seed)
            write_result(folder, result, loggers, console)
        return result.validation

    def _encoders(
        self, runs: Mapping[str, Sequence[Path]], numbers: Sequence[int], cfg: DictConfig
    ) -> list[EncoderRun]:
        """The runs with some numbers, then an untrained encoder for each number."""
        found = []
        for method, folders in runs.items():
            chosen = [folders[number] for number in numbers if number < len(folders)]
            found += [EncoderRun(method, str(run), _load(run, cfg)) for run in chosen]
        if self.untrained:
            longest = max(runs.values(), key=len)
            for number in numbers:
                saved = untrained_copy(load_code_encoder(longest[number] / ENCODER), cfg.seed + number)
                found.append(EncoderRun(UNTRAINED, f"random weights {number}", _probed(saved, cfg)))
        return found

    def _read(self, corpus: Corpus, split: DictConfig, encoders: Sequence[EncoderRun], seed: int) -> ProbeData:
        """What the encoders of one split are probed with."""
        parts = split_corpus(instantiate(split), corpus)
        num_tuning = self.fine_tuning.steps * self.fine_tuning.batch_size
        return read_data(corpus, parts, _one_of_each(encoders), self.sizes, num_tuning, seed)

    def _probe(
        self,
        name: str,
        methods: tuple[str, ...],
        read: Sequence[tuple[list[EncoderRun], ProbeData]],
        seed: int,
    ) -> ProbeResult:
        """Measures baselines and encoders, and compares them."""
        measured: list[Measured] = []
        rows = []
        for encoders, data in read:
            baselines = probe_baselines(data, self.sizes, seed)
            measured += baselines
            rows += [_run_row("", one) for one in baselines]
            for method, run, encoder in encoders:
                found = probe_encoder(method, encoder, data, self.sizes, self.fine_tuning, seed)
                measured += found
                rows += [_run_row(run, one) for one in found]
        grouped = by_seed(measured)
        differences = differences_table(grouped, compared_pairs(methods, self.against, self.untrained))
        validation = validation_of(measured, methods[0])
        first = read[0][1]
        return ProbeResult(name, methods, first, results_table(grouped), differences, pd.DataFrame(rows), validation)


def _load(run: Path, cfg: DictConfig) -> ProbedEncoder:
    return _probed(load_code_encoder(run / ENCODER), cfg)


def _probed(saved: SavedEncoder, cfg: DictConfig) -> ProbedEncoder:
    """An encoder on the device and with the precision that the trainer's options say."""
    on_gpu = cfg.trainer.accelerator in ("gpu", "auto") and torch.cuda.is_available()
    bf16 = str(cfg.trainer.precision).startswith("bf16")
    return ProbedEncoder(saved, bf16, torch.device("cuda" if on_gpu else "cpu"))


def _one_of_each(encoders: Sequence[EncoderRun]) -> list[ProbedEncoder]:
    """One encoder of each tokenizer and limit of the code's length: the others cut methods at the same place."""
    distinct: dict[tuple[str, int], ProbedEncoder] = {}
    for _, _, encoder in encoders:
        vocabulary = encoder.saved.tokenizer.backend_tokenizer.to_str()
        distinct.setdefault((vocabulary, encoder.saved.limits.code_tokens), encoder)
    return list(distinct.values())


def _size_warnings(encoders: Sequence[EncoderRun]) -> list[str]:
    """A warning if the encoders are not of one size."""
    sizes = {method: encoder.size for method, _, encoder in encoders}
    if len(set(sizes.values())) == 1:
        return []
    told = ", ".join(f"{method} {layers} x {units}" for method, (layers, units) in sizes.items())
    return [f"the encoders have different sizes (layers x units), which the comparison does not allow for: {told}"]


def _run_row(run: str, one: Measured) -> dict[str, object]:
    """A row of ``ProbeResult.runs``."""
    return {"method": one.method, "run": run, "measure": one.measure, "value": value_of(one)}
