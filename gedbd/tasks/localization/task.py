"""Bug localization: trains HMCBL if asked, and ranks the changes before each report by all methods."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pandas as pd
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.corpora.changes import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.reading import read_changes
from gedbd.experiments.tracking.runs import open_loggers
from gedbd.io.library_logs import silence_library_logs
from gedbd.retrieval.scorers.scorer import Scorer
from gedbd.tasks.localization.methods import LINEAR, plain_methods
from gedbd.tasks.localization.protocol import Halves, Level, find_halves, make_level
from gedbd.tasks.localization.rankings import Method, measure, rank_level
from gedbd.tasks.localization.result import LocalizationResult
from gedbd.tasks.localization.writing import write_result


class LocalizationTask:
    """Ranking of the changes that induced the bug of a report, see ``gedbd.experiments.training_task.Task``.

    Args:
        scorers: By id, what makes a scorer that is not fitted yet.
        baseline: The scorer that the others are compared with.
        linear: The scorers of the sum with learnt weights; none leaves it out.
        granularities: What is ranked; the first one is that of ``results.csv``.
        seeds: Number of seeds of the rankers whose training is random.
        val_share: Share of the first half, its latest reports, on which the value of ``train`` is measured.
        published: Write the paper's numbers beside the measured ones.

    Raises:
        ValueError: If an option is invalid.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"encoder", "backend"})

    def __init__(
        self,
        scorers: Mapping[str, Callable[[], Scorer]],
        baseline: str,
        linear: Sequence[str] = (),
        granularities: Sequence[Granularity] = GRANULARITIES,
        seeds: int = 2,
        val_share: float = 0.3,
        published: bool = False,
    ) -> None:
        if baseline not in scorers:
            raise ValueError(f"task.baseline={baseline} is not among task.scorers: {', '.join(scorers)}")
        unknown = [name for name in granularities if name not in GRANULARITIES]
        if unknown or not granularities:
            raise ValueError(f"task.granularities={list(granularities)}: choose from {', '.join(GRANULARITIES)}")
        if seeds < 1:
            raise ValueError(f"task.seeds={seeds} must be 1 or more")
        if not 0 < val_share < 1:
            raise ValueError(f"task.val_share={val_share} must be between 0 and 1")
        self.methods = plain_methods(scorers, granularities, linear)
        self.baseline = baseline
        self.granularities = tuple(granularities)
        self.seeds = seeds
        self.val_share = val_share
        self.published = published

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """See ``Task.train``; returns the MRR of the first trained method on validation, within the first half."""
        silence_library_logs()
        seed_everything(cfg.seed, verbose=False)
        corpus = read_changes(cfg.dataset)
        halves = find_halves(corpus)
        levels = self._levels(corpus, halves, console)
        save_run(folder, cfg, corpus)
        with open_loggers(cfg, folder, "train") as loggers:
            result = self._measure(corpus, levels, self.methods, cfg.seed, console)
            write_result(folder, result, self.published, loggers, console)
        return result.validation

    def _levels(self, corpus: ChangeCorpus, halves: Halves, console: Console) -> tuple[Level, ...]:
        """What is ranked; prints the warnings."""
        made = [make_level(corpus, halves, granularity) for granularity in self.granularities]
        warnings = [warning for _, told in made for warning in told]
        for warning in (*corpus.warnings, *halves.warnings, *warnings):
            console.print(f"{corpus.name}: {warning}", markup=False, highlight=False, soft_wrap=True)
        return tuple(level for level, _ in made)

    def _measure(
        self,
        corpus: ChangeCorpus,
        levels: tuple[Level, ...],
        methods: Mapping[str, Method],
        seed: int,
        console: Console,
    ) -> LocalizationResult:
        """Ranks by all methods."""
        first = tuple(name for name in (LINEAR,) if name in methods)
        seeds = range(seed, seed + self.seeds)
        measured = [one for level in levels for one in rank_level(level, methods, seeds, console)]
        validation = self._validate(levels[0], methods[first[0] if first else self.baseline], seed, console)
        epochs = pd.DataFrame()
        return LocalizationResult(corpus, levels, tuple(measured), self.baseline, first, validation, epochs)

    def _validate(self, level: Level, method: Method, seed: int, console: Console) -> float:
        """MRR on the latest reports of the first half of a method that learns from the older ones."""
        count = min(max(round(len(level.training) * self.val_share), 1), len(level.training) - 1)
        older = level.training[:-count]
        held_out = level.among(older, level.training[-count:])
        values, _ = measure(held_out, method.make(held_out, seed), console, "validation")
        return float(values["mrr"].mean())
