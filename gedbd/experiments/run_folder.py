"""The folder of a run: its resolved configuration, the versions it was made with, its checkpoints and its results.

A folder may come from a stranger. ``read_saved`` refuses other schemas, damaged files and what a file
must not name, see ``gedbd.configuration.allowed_targets``. What it returns may be built; what ``read_config`` returns
is only shown. Commands import this module at their start, so it imports large libraries where it uses them.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from gedbd.configuration.allowed_targets import check_options, check_plain, keep_local, named_targets
from gedbd.configuration.command import typed_words
from gedbd.configuration.option_types import check_values
from gedbd.io.checksums import check_whole
from gedbd.io.console import stage
from gedbd.io.files import corpus_name, read_list, read_object, write_text

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from gedbd.corpora.corpus import ChangeCorpus, Corpus
    from gedbd.experiments.training_task import SystemTask, TrainingSetup
    from gedbd.retrieval.ranking_tasks import ProtocolWords

CONFIG = "config.yaml"
VERSIONS = "versions.json"
SCHEMA = 5  # version of the files of a run folder, stored in VERSIONS; raised when the files of older ones change
PREDICTIONS = "predictions.parquet"  # the last file that a finished run needs
TSNE = "tsne.parquet"
CAPTIONS = "figures/captions.json"  # of the figures that only the run's task has
PROTOCOLS = "protocols.json"
MATCHING = "matching.json"  # the last file that a finished backtest needs
OVERRIDES = "overrides"  # in VERSIONS: the options of the command line, by which a report names the run
OWN_PAGE = "own_page.json"  # the last file of a run that makes its own report.html instead of scoring pairs
OWN_PAGES = (MATCHING, OWN_PAGE)

# Sections that only a training reads, and those that encoding reports does not read either.
TRAINING_ONLY = ("callbacks", "logger")
NOT_ENCODING = (*TRAINING_ONLY, "loss")
NEEDED = ("dataset", "encoder", "split", "text")
PATHS = (
    *("adapter", "cache_dir", "captions", "change_encoder", "checkpoint", "ckpt_path", "data_dir", "feedback"),
    *("held_out", "image_dir", "links", "path", "paths", "report_encoder", "run", "val_checkpoint"),
)
PACKAGES = ("gedbd", "torch", "pytorch-lightning", "torch-geometric", "transformers", "numpy", "pandas")


def save_run(folder: Path, cfg: DictConfig, corpus: "Corpus | ChangeCorpus") -> None:
    """Writes ``config.yaml``, resolved and with absolute paths, and ``versions.json`` with the options as typed."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    typed = typed_words() if HydraConfig.initialized() else []
    if cfg.get("ckpt_path"):
        # A resumed run keeps its options, of which the command line repeats few.
        typed = [*Run(Path(cfg.ckpt_path).parent.parent).overrides, *typed]
    write_text(folder / CONFIG, OmegaConf.to_yaml(OmegaConf.create(saved_options(cfg))))
    packages = {name: version(name) for name in PACKAGES}
    about = {"schema": SCHEMA, "corpus": corpus.fingerprint, "packages": packages, "folder": str(folder.absolute())}
    write_text(folder / VERSIONS, json.dumps(about | {OVERRIDES: list(dict.fromkeys(typed))}, indent=2) + "\n")


def record_overrides(folder: Path, words: Sequence[str]) -> None:
    """Records the options of a run that was started from Python, as ``save_run`` does those of a command line."""
    about = read_object(folder / VERSIONS) | {OVERRIDES: list(words)}
    write_text(folder / VERSIONS, json.dumps(about, indent=2) + "\n")


def saved_options(cfg: DictConfig) -> dict[str, Any]:
    """Resolved options with absolute paths, so that a run can be read from any working directory.

    Paths are the options in ``PATHS``, and ``model`` if it names an existing folder instead of a model on a hub.
    Paths that begin with ``~`` or name a resource (``pkg://``) do not change. ``json``, which says how results are
    printed, is left out.
    """
    options: dict[str, Any] = _with_paths(OmegaConf.to_container(cfg, resolve=True), lambda path: str(path.absolute()))
    options.pop("json", None)
    return options


def _with_paths(options: Any, change: Callable[[Path], str], name: str = "") -> Any:
    """Options with every path replaced by ``change(path)``; ``name`` is that of the option itself."""
    if isinstance(options, dict):
        return {key: _with_paths(value, change, key) for key, value in options.items()}
    if isinstance(options, list):
        return [_with_paths(value, change, name) for value in options]
    return change(Path(options)) if _is_path(name, options) else options


def _is_path(name: str, value: Any) -> bool:
    # pkg://, a URL and ~ mean the same in every working directory.
    if not isinstance(value, str) or not value or "://" in value or value.startswith("~"):
        return False
    return name in PATHS or (name == "model" and Path(value).is_dir())


def check_run_folder(folder: Path) -> None:
    """Raises ValueError if a folder is not that of a run; commands call it before they import large libraries."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {CONFIG}")


def check_schema(folder: Path) -> None:
    """Raises ValueError if a run folder was made by a version of gedbd with another schema."""
    file = folder / VERSIONS
    schema = read_object(file).get("schema") if file.is_file() else None
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        repair = "install that version" if newer else "run its command again in a new folder"
        raise ValueError(f"{folder} was written by {'a newer' if newer else 'an older'} version of gedbd: {repair}")


def check_corpus(folder: Path, corpus: "Corpus | ChangeCorpus") -> None:
    """Raises ValueError if a corpus is not the one that a run was trained on."""
    if corpus.fingerprint != read_object(folder / VERSIONS, "corpus")["corpus"]:
        raise ValueError(f"run={folder}: the corpus {corpus.name} has changed since the run was trained")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as OmegaConf does, such as 1e-5 as a number, but with libyaml, which is ten times as fast."""

    yaml_implicit_resolvers = get_yaml_loader().yaml_implicit_resolvers

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Reads a section; raises an error if an option occurs twice."""
        names = [name.value for name, _ in node.value]
        if len(set(names)) < len(names):
            raise yaml.constructor.ConstructorError("an option occurs twice", node.start_mark)
        section: dict[Any, Any] = super().construct_mapping(node, deep)
        return section


def read_config(folder: Path) -> DictConfig:
    """The options in a run folder, to show, not to run: the code that they name is not checked.

    Raises:
        ValueError: If the folder holds no run, or the file holds no plain options.
    """
    check_run_folder(folder)
    file = folder / CONFIG
    try:
        text = file.read_text(encoding="utf-8")
        # Nested aliases can expand a short file without bound; gedbd writes none.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=_Loader)):
            raise ValueError(f"{file} is damaged: it repeats parts of itself with YAML aliases (*name)")
        options = yaml.load(text, Loader=_Loader)
        if not isinstance(options, dict) or not options:
            raise ValueError(f"{file} is damaged: it holds no options")
        check_plain(options, str(file))
        return OmegaConf.create(options)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OmegaConfBaseException) as error:
        raise ValueError(f"{file} is damaged: {type(error).__name__}") from error


def read_saved(
    folder: Path,
    left_out: Sequence[str] = TRAINING_ONLY,
    cache_dir: str | None = None,
    given: Mapping[str, Any] | None = None,
) -> DictConfig:
    """The configuration in a run folder, from which objects may be built.

    A saved path that does not exist is resolved relative to the folder, so that a project can be moved as a whole.

    Args:
        folder: The run folder, possibly from a stranger.
        left_out: Sections that are left out, whatever they name.
        cache_dir: Folder of the caches on this machine; None for the default one.
        given: Plain options of a command line that continues the run: targets, models and addresses that it names are
            kept. None removes all addresses, see ``keep_local``.

    Raises:
        ValueError: If the folder holds no run, or its configuration is damaged or names code that a file may not name.
    """
    source = str(folder / CONFIG)
    cfg = read_config(folder)
    check_schema(folder)
    options: Any = OmegaConf.to_container(cfg)
    for name in left_out:
        options.pop(name, None)
    check_options(options, source, named_targets(given))
    for name in NEEDED:
        if not OmegaConf.is_dict(cfg.get(name)) or "_target_" not in cfg[name]:
            raise ValueError(f"{source} is damaged: it has no section {name}, or that section has no _target_")
    try:
        check_values(cfg)
    except ValueError as error:
        raise ValueError(f"{source} is damaged: {error}") from error
    keep_local(options, source, cache_dir, given)
    recorded_folder = read_object(folder / VERSIONS).get("folder")  # the path of the folder when it was written
    stored_in = recorded_folder if isinstance(recorded_folder, str) else ""

    def find(path: Path) -> str:
        if not stored_in or path.exists() or not path.is_absolute():
            return str(path)
        moved = Path(os.path.normpath(folder.absolute() / os.path.relpath(path, stored_in)))
        return str(moved if moved.exists() else path)

    saved: DictConfig = OmegaConf.create(_with_paths(options, find))
    return saved


def find_run(
    folder: Path, checkpoint: str, cache_dir: str | None = None, left_out: Sequence[str] = NOT_ENCODING
) -> tuple[DictConfig, Path]:
    """A run's resolved configuration and the file of its ``best``, ``last`` or ``refit`` checkpoint.

    Raises:
        ValueError: If the run trained no encoder of reports, or the checkpoint is missing or damaged.
    """
    from gedbd.experiments.training_task import SystemTask

    cfg = read_saved(folder, left_out, cache_dir)
    target = OmegaConf.select(cfg, "task._target_")
    if target is not None and not issubclass(get_class(target), SystemTask):
        encoder = folder / "encoder"
        weights = f"use its weights with encoder=codebert encoder.model={encoder}" if encoder.is_dir() else None
        raise ValueError(
            f"run={folder}: its task, {target}, trains no encoder of reports: {weights or 'give a run of another task'}"
        )
    path = folder / "checkpoints" / f"{checkpoint}.ckpt"
    if not path.is_file():
        raise ValueError(f"run={folder}: there is no {path.name} in its checkpoints")
    check_whole(path)
    return cfg, path


@stage("open the run")
def load_run(
    folder: Path, checkpoint: str, part: str, cache_dir: str, console: "Console"
) -> "tuple[SystemTask, TrainingSetup]":
    """Restores a trained run from its folder.

    Raises:
        ValueError: If the folder is not a run folder, or its corpus has changed.
    """
    from gedbd.encoders.encoder_weights import load_state, read_state

    cfg, path = find_run(folder, checkpoint, cache_dir, TRAINING_ONLY)
    cfg.ranking.parts = [part]  # validation is scored for the thresholds of the other methods, not ranked
    task: SystemTask = instantiate(cfg.task)
    setup = task.build(cfg, console, ("val", part))
    check_corpus(folder, setup.corpus)
    load_state(setup.system, read_state(path), str(path))
    return task, setup


def use_run(cfg: DictConfig, folder: Path, checkpoint: str = "best") -> Path:
    """Replaces encoder and text of a configuration by those of a run; returns the file of its trained weights.

    Raises:
        ValueError: If the folder is not a run folder, or the run was trained with another split or other labels.
    """
    saved, path = find_run(folder, checkpoint)
    # With another split or other labels, the run may have been trained on pairs that are tested here.
    for key in ("split", "labels"):
        own_options = OmegaConf.to_container(cfg[key], resolve=True)
        if own_options != OmegaConf.to_container(saved[key], resolve=True):
            raise ValueError(
                f"run={folder} was trained with {key}={saved[key]}, but here it is {own_options}: set the same value"
            )
    cfg.encoder = saved.encoder
    cfg.text = saved.text
    return path


class RunWeights(NamedTuple):
    """The weights of a trained encoder."""

    test: Path  # for encoding the test split, and an index
    val: Path  # for encoding the validation split: weights that were not trained on it


def run_weights(cfg: DictConfig) -> RunWeights:
    """The weights of ``cfg.run``, whose encoder and text replace those of the configuration; see ``use_run``."""
    folder = Path(cfg.run)
    return RunWeights(use_run(cfg, folder, cfg.weights), use_run(cfg, folder, "best"))


@dataclass(frozen=True)
class Run:
    """One run of a training or a baseline. Its files are read when they are needed."""

    folder: Path

    @cached_property
    def config(self) -> Any:
        """The resolved configuration."""
        return read_config(self.folder)

    @cached_property
    def predictions(self) -> "pd.DataFrame":
        """Scored pairs."""
        return _read_table(self.folder / PREDICTIONS)

    @property
    def reported_pairs(self) -> "pd.DataFrame":
        """The scored pairs of the reported split."""
        return self.predictions[self.predictions["part"] == self.part]

    @cached_property
    def results(self) -> "pd.DataFrame":
        """Metrics on pairs, one row per method; the first is the run's own."""
        table = _read_table(self.folder / "results.csv")
        json_path = self.folder / "results.json"
        rows = len(read_list(json_path)) if json_path.is_file() else len(table)
        if rows != len(table):
            raise ValueError(
                f"{self.folder}: results.csv has {len(table)} rows and results.json {rows}: one of them is cut off"
            )
        return table

    @cached_property
    def ranking(self) -> "pd.DataFrame | None":
        """Metrics on queries among all earlier reports, one row per method, if the run ranked."""
        return self._table("ranking.csv")

    @cached_property
    def queries(self) -> "pd.DataFrame | None":
        """Ranks of each query by every protocol, if the run ranked."""
        return self._table("queries.parquet")

    def queries_of(self, protocol: str) -> "pd.DataFrame | None":
        """Ranks of each query by one protocol, if there are any."""
        if self.queries is None or protocol not in set(self.queries["protocol"]):
            return None
        return self.queries[self.queries["protocol"] == protocol]

    @cached_property
    def protocols(self) -> "dict[str, ProtocolWords]":
        """The protocols that it ranked by, in its order, with the wording for each; empty if it did not rank."""
        from gedbd.retrieval.ranking_tasks import words_of  # it imports pandas

        if self.queries is None:
            return {}
        path = self.folder / PROTOCOLS
        stored = read_object(path) if path.is_file() else {}
        words = {name: values for name, values in stored.items() if isinstance(values, dict)}
        return {str(name): words_of(str(name), words) for name in self.queries["protocol"].unique()}

    @cached_property
    def epochs(self) -> "pd.DataFrame | None":
        """Metrics by epoch, one row per epoch; None for a baseline."""
        return self._table("metrics.csv")

    @cached_property
    def tsne(self) -> "pd.DataFrame | None":
        """The t-SNE projection of reports, if there is one."""
        return self._table(TSNE)

    @cached_property
    def captions(self) -> dict[str, str]:
        """Captions of the figures that only the run's task has, by name; ``figure_file`` is the file of each."""
        path = self.folder / CAPTIONS
        captions_by_name = read_object(path) if path.is_file() else {}
        for name in captions_by_name:
            # The folder may come from a stranger: a name with slashes would be a file elsewhere.
            if not name.isidentifier():
                raise ValueError(f"{path} is damaged: {name!r} is not the name of a figure")
        return {name: str(caption) for name, caption in captions_by_name.items()}

    def figure_file(self, name: str) -> Path:
        """The PNG file of a figure."""
        return self.folder / "figures" / f"{name}.png"

    @cached_property
    def leak(self) -> dict[str, float]:
        """The leak audit."""
        return read_object(self.folder / "leak.json")

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the corpus's contents, if the run has recorded one."""
        path = self.folder / VERSIONS
        return str(read_object(path, "corpus")["corpus"]) if path.is_file() else None

    @cached_property
    def overrides(self) -> list[str]:
        """The options that were typed for it, such as ``graph.pca_dim=5``; empty if the run has not recorded any."""
        path = self.folder / VERSIONS
        typed = read_object(path).get(OVERRIDES, []) if path.is_file() else []
        if not isinstance(typed, list):
            raise ValueError(f"{path} is damaged: {OVERRIDES} is not a list")
        return [str(word) for word in typed]

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
        """Name of the corpus and, if the run used only its newest reports, their number."""
        name = self.config.dataset.name or corpus_name(Path(self.config.dataset.path))
        last_n = self.config.dataset.get("last_n")
        return f"{name}, newest {last_n:,}" if last_n else str(name)

    @property
    def method(self) -> str:
        """Id of the run's own method."""
        return str(self.results["method"][0])

    @property
    def part(self) -> str:
        """The reported split."""
        return str(self.config.part) if self.is_baseline else "test"

    def column(self, method: str) -> str:
        """The column of ``predictions`` that holds a method's scores."""
        from gedbd.evaluation.result_tables import WITH_GRAPH  # it imports matplotlib

        return "score" if method == self.method else WITH_GRAPH[method]

    @property
    def label(self) -> str:
        """Name of the run in tables: that of the baseline, or encoder and method."""
        from gedbd.evaluation.display_names import display_name, with_trained_encoder  # it imports pandas

        if self.is_baseline:
            return with_trained_encoder(self.config.name) if self.config.run else str(self.config.name)
        return f"{self.config.encoder.name}, {display_name(self.method)}"

    def _table(self, name: str) -> "pd.DataFrame | None":
        path = self.folder / name
        return _read_table(path) if path.is_file() else None


def _read_table(path: Path) -> "pd.DataFrame":
    """A CSV or Parquet file."""
    from gedbd.io.table_files import read_csv, read_parquet  # it imports pandas

    return read_parquet(path) if path.suffix == ".parquet" else read_csv(path)


class FoundRuns(NamedTuple):
    """The runs in some folders, in the order of their paths."""

    finished: list[Run]  # finished runs
    unfinished: list[Path]  # folders of unfinished runs
    outdated: list[str]  # one line for each finished run that another version of gedbd has made, see ``check_schema``
    own_pages: list[Path]  # folders of runs with a page of their own


def find_runs(paths: list[Path]) -> FoundRuns:
    """All runs in some folders and below. Those with a page of their own, such as backtests, are listed separately.

    Raises:
        ValueError: If a path does not exist, or has neither a run with predictions nor one with its own page, or
            if there is no run with predictions that this version of gedbd can read.
    """
    found: dict[Path, Path] = {}  # by resolved path, so that a run below two of the paths counts once
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path}: no such folder; give a run folder, a sweep, or a folder that contains them")
        # Skips Hydra's own folders, and sorts the jobs of a sweep by number: 2 comes before 10.
        configured = {file.parent for file in path.rglob("config.yaml") if file.parent.name != ".hydra"}
        if not any((folder / name).is_file() for folder in configured for name in (PREDICTIONS, *OWN_PAGES)):
            raise ValueError(
                f"{path} has no run with {PREDICTIONS}, which this command reads: its task writes none, or the run is"
                " unfinished, and ckpt_path=<run>/checkpoints/last.ckpt resumes it"
            )
        folders = sorted(configured, key=lambda folder: [(int(p) if p.isdecimal() else -1, p) for p in folder.parts])
        found |= {folder.resolve(): folder for folder in folders}
    finished: list[Run] = []
    unfinished: list[Path] = []
    outdated: list[str] = []
    own_pages: list[Path] = []
    for folder in found.values():
        if (folder / PREDICTIONS).is_file():
            try:
                check_schema(folder)
                finished.append(Run(folder))
            except ValueError as error:
                outdated.append(str(error))
        else:
            has_page = any((folder / name).is_file() for name in OWN_PAGES)
            (own_pages if has_page else unfinished).append(folder)
    if outdated and not finished:
        raise ValueError(outdated[0])
    if not finished:
        first, *others = own_pages
        more = f"; so have {len(others):,} more runs" if others else ""
        raise ValueError(f"{first} has its own page, and there is no other run: see {first}/report.html{more}")
    return FoundRuns(finished, unfinished, outdated, own_pages)
