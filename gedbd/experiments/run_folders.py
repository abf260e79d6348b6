"""Reads finished runs from their folders, to compare and report them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from gedbd.configuration.saved_options import VERSIONS, check_schema, read_config
from gedbd.evaluation.display_names import display_name, with_trained_encoder
from gedbd.io.files import corpus_name, read_list, read_object
from gedbd.io.table_files import read_csv, read_parquet
from gedbd.retrieval.ranking_tasks import ProtocolWords, words_of

PREDICTIONS = "predictions.parquet"  # the last file that a finished run needs
TSNE = "tsne.parquet"
CAPTIONS = "figures/captions.json"  # of the figures that only the run's task has
PROTOCOLS = "protocols.json"
MATCHING = "matching.json"  # the last file that a finished backtest needs
OWN_PAGE = "own_page.json"  # the last file of a run that makes its own report.html instead of scoring pairs


@dataclass(frozen=True)
class Run:
    """One run of a training or a baseline. Its files are read when they are needed.

    Attributes:
        folder: The run folder.
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
        """Ranks of each query by every protocol, if the run ranked."""
        return self._parquet("queries.parquet")

    def queries_of(self, protocol: str) -> pd.DataFrame | None:
        """Ranks of each query by one protocol, if there are any."""
        if self.queries is None or protocol not in set(self.queries["protocol"]):
            return None
        return self.queries[self.queries["protocol"] == protocol]

    @cached_property
    def protocols(self) -> dict[str, ProtocolWords]:
        """The protocols that it ranked by, in its order, with the words about each; empty if it did not rank."""
        if self.queries is None:
            return {}
        path = self.folder / PROTOCOLS
        stored = read_object(path) if path.is_file() else {}
        words = {name: values for name, values in stored.items() if isinstance(values, dict)}
        return {str(name): words_of(str(name), words) for name in self.queries["protocol"].unique()}

    @cached_property
    def epochs(self) -> pd.DataFrame | None:
        """One row an epoch; None for a baseline."""
        return self._table("metrics.csv")

    @cached_property
    def tsne(self) -> pd.DataFrame | None:
        """The t-SNE projection of reports, if there is one."""
        return self._parquet(TSNE)

    @cached_property
    def captions(self) -> dict[str, str]:
        """Captions of the figures that only the run's task has, by name; ``figure_file`` is the file of each."""
        path = self.folder / CAPTIONS
        found = read_object(path) if path.is_file() else {}
        for name in found:
            # The folder may come from a stranger: a name with slashes would be a file elsewhere.
            if not name.isidentifier():
                raise ValueError(f"{path} is damaged: {name!r} is not the name of a figure")
        return {name: str(caption) for name, caption in found.items()}

    def figure_file(self, name: str) -> Path:
        """The PNG file of a figure."""
        return self.folder / "figures" / f"{name}.png"

    @cached_property
    def leak(self) -> dict[str, float]:
        """The leak audit."""
        return read_object(self.folder / "leak.json")

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the corpus' contents, if the run has recorded one."""
        path = self.folder / VERSIONS
        return str(read_object(path, "corpus")["corpus"]) if path.is_file() else None

    @property
    def year(self) -> int | None:
        """The year that was tested with ``split=year``; None with another split."""
        split = self.config.get("split") or {}
        return int(split["year"]) if str(split.get("_target_", "")).endswith(".YearSplit") else None

    @property
    def finished_at(self) -> float:
        """When its predictions were written, in seconds since 1970."""
        return (self.folder / PREDICTIONS).stat().st_mtime

    @property
    def is_baseline(self) -> bool:
        """Whether it is the run of a baseline."""
        return "baselines" in self.config

    @property
    def corpus(self) -> str:
        """Name of the corpus and, if the run used a part of it, which part."""
        name = self.config.dataset.name or corpus_name(Path(self.config.dataset.path))
        last_n = self.config.dataset.get("last_n")
        return f"{name}, newest {last_n:,}" if last_n else str(name)

    @property
    def method(self) -> str:
        """Id of the run's own method."""
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
        """Name of the run in tables: that of the baseline, or encoder and method."""
        if self.is_baseline:
            return with_trained_encoder(self.config.name) if self.config.run else str(self.config.name)
        return f"{self.config.encoder.name}, {display_name(self.method)}"

    def _table(self, name: str) -> pd.DataFrame | None:
        path = self.folder / name
        return read_csv(path) if path.is_file() else None

    def _parquet(self, name: str) -> pd.DataFrame | None:
        path = self.folder / name
        return read_parquet(path) if path.is_file() else None


class FoundRuns(NamedTuple):
    """The runs in some folders, in the order of their paths.

    Attributes:
        finished: Finished runs.
        unfinished: Folders of unfinished runs.
        outdated: One line for each finished run that another version of gedbd has made, see ``check_schema``.
    """

    finished: list[Run]
    unfinished: list[Path]
    outdated: list[str]


def find_runs(paths: list[Path]) -> FoundRuns:
    """All runs in some folders and below. Those with a page of their own are left out, see ``find_own_pages``.

    Raises:
        ValueError: If a path does not exist, or has neither a run with predictions nor one with its own page, or
            if there is no run with predictions that this version of gedbd can read.
    """
    # By resolved path: a run that is found by two of the paths counts once.
    finished: dict[Path, Run] = {}
    unfinished: dict[Path, Path] = {}
    outdated: dict[Path, str] = {}
    with_page: list[Path] = []
    for path in paths:
        folders = _configured_folders(path)
        own = [folder for folder in folders if _has_own_page(folder)]
        scored = [folder for folder in folders if (folder / PREDICTIONS).is_file()]
        if not scored and not own:
            raise ValueError(
                f"{path} has no run with {PREDICTIONS}, which this command reads: its task writes none, or the run is"
                " unfinished, and ckpt_path=<run>/checkpoints/last.ckpt resumes it"
            )
        with_page += own
        for folder in scored:
            try:
                check_schema(folder)
                finished[folder.resolve()] = Run(folder)
            except ValueError as error:
                outdated[folder.resolve()] = str(error)
        unfinished |= {folder.resolve(): folder for folder in folders if folder not in scored and folder not in own}
    if outdated and not finished:
        raise ValueError(next(iter(outdated.values())))
    if not finished:
        more = f"; so have {len(with_page) - 1:,} more runs" if len(with_page) > 1 else ""
        raise ValueError(
            f"{with_page[0]} has its own page, and there is no other run to report: see"
            f" {with_page[0]}/report.html{more}"
        )
    return FoundRuns(list(finished.values()), list(unfinished.values()), list(outdated.values()))


def find_own_pages(paths: list[Path]) -> list[Path]:
    """The folders of runs with a page of their own, such as backtests, each once, in the order of the paths."""
    folders = [folder for path in paths for folder in _configured_folders(path)]
    return list({folder.resolve(): folder for folder in folders if _has_own_page(folder)}.values())


def _configured_folders(path: Path) -> list[Path]:
    """The folders with a configuration in a folder and below, without Hydra's own."""
    if not path.is_dir():
        raise ValueError(f"{path}: no such folder; give a run folder, a sweep, or a folder that contains them")
    folders = {file.parent for file in path.rglob("config.yaml") if file.parent.name != ".hydra"}
    return sorted(folders, key=_numbers_in_order)


def _numbers_in_order(folder: Path) -> list[tuple[int, str]]:
    """Sorts the jobs of a sweep by their numbers: 2 comes before 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in folder.parts]


def _has_own_page(folder: Path) -> bool:
    finished = (folder / MATCHING).is_file() or (folder / OWN_PAGE).is_file()
    return finished and not (folder / PREDICTIONS).is_file()
