"""What run folders hold, read back to be compared and reported."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from gedbd.configuration.saved_options import read_config
from gedbd.io.files import read_list, read_object
from gedbd.io.paths import corpus_name
from gedbd.io.tables import read_csv, read_parquet

PREDICTIONS = "predictions.parquet"  # the last file that a finished run needs
MATCHING = "matching.json"  # what a backtest has learnt


@dataclass(frozen=True)
class Run:
    """One run folder, of a training or a baseline.

    Attributes:
        folder: Where it lies.
    """

    folder: Path

    @cached_property
    def config(self) -> Any:
        """The resolved configuration."""
        return read_config(self.folder)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Scored pairs."""
        return read_parquet(self.folder / PREDICTIONS)

    @cached_property
    def results(self) -> pd.DataFrame:
        """Metrics on pairs, one row a method; the first is the run's own."""
        table = read_csv(self.folder / "results.csv")
        same = self.folder / "results.json"
        rows = len(read_list(same)) if same.is_file() else len(table)
        if rows != len(table):
            raise ValueError(
                f"{self.folder}: results.csv has {len(table)} rows and results.json {rows}: one of them is cut off"
            )
        return table

    @cached_property
    def ranking(self) -> pd.DataFrame | None:
        """Metrics on queries among all earlier reports, one row a method, if the run ranked."""
        return self._table("ranking.csv")

    @cached_property
    def queries(self) -> pd.DataFrame | None:
        """Ranks of the single queries by every protocol, if the run ranked."""
        path = self.folder / "queries.parquet"
        return read_parquet(path) if path.is_file() else None

    def queries_of(self, protocol: str) -> pd.DataFrame | None:
        """Ranks of the single queries by one protocol, if there are any."""
        if self.queries is None or protocol not in set(self.queries["protocol"]):
            return None
        return self.queries[self.queries["protocol"] == protocol]

    @cached_property
    def epochs(self) -> pd.DataFrame | None:
        """The row of each epoch; a baseline has none."""
        return self._table("metrics.csv")

    @cached_property
    def map(self) -> pd.DataFrame | None:
        """The 2-D map of reports, if there is one."""
        path = self.folder / "map.parquet"
        return read_parquet(path) if path.is_file() else None

    @cached_property
    def leak(self) -> dict[str, float]:
        """The leak audit."""
        return read_object(self.folder / "leak.json")

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the corpus' contents, if the run has noted one."""
        path = self.folder / "versions.json"
        return str(read_object(path, "corpus")["corpus"]) if path.is_file() else None

    @property
    def finished_at(self) -> float:
        """When its predictions were written, in seconds since 1970."""
        return (self.folder / PREDICTIONS).stat().st_mtime

    @property
    def is_baseline(self) -> bool:
        """Whether a baseline left this folder."""
        return "baselines" in self.config

    @property
    def corpus(self) -> str:
        """Name of the corpus, and of the slice of it."""
        name = self.config.dataset.name or corpus_name(Path(self.config.dataset.path))
        last_n = self.config.dataset.get("last_n")
        return f"{name}, newest {last_n:,}" if last_n else str(name)

    @property
    def method(self) -> str:
        """The run's own method."""
        return str(self.results["method"][0])

    @property
    def part(self) -> str:
        """The part that was reported."""
        return str(self.config.part) if self.is_baseline else "test"

    def column(self, method: str) -> str:
        """The column of ``predictions`` that holds a method's scores."""
        from gedbd.evaluation.result_tables import WITH_GRAPH  # it imports matplotlib

        return "score" if method == self.method else WITH_GRAPH[method]

    @property
    def label(self) -> str:
        """What the run is, for a table: a baseline's name, or encoder and graph."""
        if self.is_baseline:
            trained = " (trained encoder)" if self.config.run else ""
            return f"{self.config.name}{trained}"
        return f"{self.config.encoder.name}, {self.method}"

    def _table(self, name: str) -> pd.DataFrame | None:
        path = self.folder / name
        return read_csv(path) if path.is_file() else None


def find_runs(paths: list[Path]) -> tuple[list[Run], list[Path]]:
    """All finished runs in some folders and below, in the order of their paths, and the folders of unfinished ones.

    Folders of backtests are neither: see ``find_backtests``.

    Raises:
        ValueError: If a path does not exist, or holds neither a run with predictions nor a backtest, or if none of them
            holds a run with predictions.
    """
    finished: dict[Path, Run] = {}
    unfinished: dict[Path, Path] = {}
    backtests: list[Path] = []
    for path in paths:
        folders = _configured(path)
        tested = [folder for folder in folders if _is_backtest(folder)]
        mine = [folder for folder in folders if (folder / PREDICTIONS).is_file()]
        if not mine and not tested:
            raise ValueError(
                f"{path} holds no run with predictions: a run that was interrupted goes on with"
                " ckpt_path=<run>/checkpoints/last.ckpt"
            )
        backtests += tested
        finished |= {folder.resolve(): Run(folder) for folder in mine}
        others = [folder for folder in folders if folder not in mine and folder not in tested]
        unfinished |= {folder.resolve(): folder for folder in others}
    if not finished:
        raise ValueError(
            f"{backtests[0]} is the folder of a backtest, and there is no run beside it: the page of this backtest is"
            f" {backtests[0] / 'report.html'}"
        )
    return list(finished.values()), list(unfinished.values())


def find_backtests(paths: list[Path]) -> list[Path]:
    """The folders of finished backtests in some folders and below, each once, in the order of their paths."""
    found = {folder.resolve(): folder for path in paths for folder in _configured(path) if _is_backtest(folder)}
    return list(found.values())


def _configured(path: Path) -> list[Path]:
    """The folders with a configuration in a folder and below, but for Hydra's own."""
    if not path.is_dir():
        raise ValueError(f"{path}: there is no such folder; name a run folder, a sweep, or one above them")
    return sorted({file.parent for file in path.rglob("config.yaml") if file.parent.name != ".hydra"})


def _is_backtest(folder: Path) -> bool:
    return (folder / MATCHING).is_file() and not (folder / PREDICTIONS).is_file()
