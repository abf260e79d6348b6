"""Groups runs that differ only by seed into settings."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.significance import f1_interval, interval_columns
from gedbd.experiments.report.counted_options import comparable, counted_options, flatten, mark_seeds, setting_key
from gedbd.experiments.run_folder import Run
from gedbd.retrieval.ranking_metrics import per_query
from gedbd.retrieval.ranking_tasks import EARLIER, ProtocolWords

CONTENTS_SHOWN = 8  # characters of a fingerprint
CHECKPOINTS = ("checkpoint", "val_checkpoint")
MAX_PATH_PARTS = 4  # of a path in a label; paths that agree in these are shown in full
MARKERS = ("name", "_target_", "model")
TEST_OPTIONS = ("dataset", "split", "labels", "pairs", "ranking", "part")


@dataclass(frozen=True)
class Setting:
    """One setting and its runs, one a seed.

    Attributes:
        base: Encoder and method, or the baseline.
        named: The options in which it differs from other settings of its kind and corpus, with their values as shown.
        options: All options of its first run by name, such as ``graph.pca_dim``.
        counted: The options that can change a number.
        runs: One run of each seed, in the order of the seeds.
        repeated: Older runs of the same seeds, which are left out.
    """

    base: str
    named: dict[str, str]
    options: dict[str, Any]
    counted: dict[str, Any]
    runs: list[Run]
    repeated: list[Run] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Its name, unique among the settings of one corpus."""
        return self.label_without()

    def label_without(self, *names: str) -> str:
        """Its name without some of its options."""
        return ", ".join([self.base, *(option_label(*item) for item in self.named.items() if item[0] not in names)])

    def name_of(self, method: str) -> str:
        """Display name of one of its methods; its own method has the name of the setting."""
        return self.label if method == self.methods[0] else f"{display_name(method)} of {self.label}"

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return [int(run.config.seed) for run in self.runs]

    @property
    def corpus(self) -> str:
        """Name of the corpus."""
        return self.runs[0].corpus

    @property
    def split(self) -> str:
        """Name of the split: ``time``, ``group``, ``fold`` or ``pair``."""
        return str(self.options["split._target_"]).rsplit(".", 1)[-1].removesuffix("Split").lower()

    @property
    def methods(self) -> list[str]:
        """Ids of the methods that were scored, the setting's own first; ``always_duplicate`` is left out."""
        return list(self.runs[0].results["method"][:-1])  # the last row is always_duplicate

    def pair_metrics(self, method: str) -> dict[str, float]:
        """Means over seeds of the metrics on pairs, and the interval of the mean of F1 over duplicate groups."""
        rows = [run.results[run.results["method"] == method].iloc[0] for run in self.runs]
        values = {name: float(np.mean([row[name] for row in rows])) for name in rows[0].index if name != "method"}
        low, high = f1_interval(*self._predictions(method))
        return values | {"f1_low": low, "f1_high": high}

    def rank_metrics(self, method: str, protocol: str = EARLIER) -> dict[str, float] | None:
        """Means over seeds of the metrics on queries, and intervals over queries; None if nothing was ranked."""
        table = self.ranks(method, protocol)
        return None if table is None else query_metrics(table)

    def ranks(self, method: str, protocol: str = EARLIER) -> pd.DataFrame | None:
        """Rank, reachability and metrics of every query and seed."""
        tables = [run.queries_of(protocol) for run in self.runs]
        if any(table is None for table in tables):
            return None
        every = pd.concat([table for table in tables if table is not None])
        every = every[every["method"] == method].reset_index(drop=True)
        return pd.concat([every[["id", "group", "reachable", "rank"]], per_query(every)], axis=1)

    def words_of(self, protocol: str) -> ProtocolWords:
        """The words about a protocol that its runs have ranked by."""
        return self.runs[0].protocols[protocol]

    def scores(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of the reported pairs, all seeds together."""
        tables = [run.predictions[run.predictions["part"] == run.part] for run in self.runs]
        every = [table[run.column(method)].to_numpy() for run, table in zip(self.runs, tables, strict=True)]
        return np.concatenate(every), np.concatenate([table["label"].to_numpy() for table in tables])

    def by_seed(self, metric: str) -> list[float] | None:
        """A metric of its own method on pairs or among all earlier reports, seed by seed; None where a run lacks it."""
        values = []
        for run in self.runs:
            tables = [table for table in (run.results, run.ranking) if table is not None and metric in table]
            if not tables:
                return None
            table = tables[0]
            values.append(float(table.loc[table["method"] == self.methods[0], metric].iloc[0]))
        return values

    def same_test(self, other: "Setting") -> bool:
        """Whether another setting is tested on the same pairs and queries, according to its options."""
        return self.corpus == other.corpus and self._test_key() == other._test_key()

    def _test_key(self) -> frozenset[tuple[str, Any]]:
        return setting_key({name: value for name, value in self.counted.items() if name.split(".")[0] in TEST_OPTIONS})

    def _predictions(self, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predictions, labels, groups and run of the reported pairs, all seeds together."""
        predicted = []
        label = []
        group = []
        for run in self.runs:
            table = run.predictions[run.predictions["part"] == run.part]
            threshold = run.results.loc[run.results["method"] == method, "threshold"].iloc[0]
            scores = table[run.column(method)].to_numpy()
            predicted.append(scores >= np.asarray(threshold, dtype=scores.dtype))
            label.append(table["label"].to_numpy())
            group.append(table["group"].to_numpy(dtype=str))
        number = np.repeat(np.arange(len(label)), [len(one) for one in label])
        return np.concatenate(predicted), np.concatenate(label), np.concatenate(group), number


def ranked_protocols(settings: Iterable[Setting]) -> list[str]:
    """The protocols by which some runs have ranked, each once, in the order of the runs."""
    return list(dict.fromkeys(name for setting in settings for run in setting.runs for name in run.protocols))


def query_metrics(table: pd.DataFrame) -> dict[str, float]:
    """Means of the metrics of queries, and the intervals of RR@10, MRR and MAP@10 over queries.

    Args:
        table: The table of ``Setting.ranks``.
    """
    values = {name: float(table[name].mean()) for name in table.columns if name not in ("id", "group")}
    names = [name for name in ("rr@10", "mrr", "map@10") if name in table]
    means = table.groupby(["id", "group"])[names].mean().reset_index()
    return values | interval_columns(means, means["group"].to_numpy(), names)


def group_settings(runs: Iterable[Run]) -> list[Setting]:
    """Groups runs that differ only by seed, in the order of each setting's first run.

    Of several runs with the same setting and seed the newest counts; the others are in ``Setting.repeated``.
    """
    runs = list(runs)
    options = mark_seeds([counted_options(run) for run in runs], [int(run.config.seed) for run in runs])
    keys = [(run.corpus, run.label, setting_key(counted)) for run, counted in zip(runs, options, strict=True)]
    counted_of = dict(zip(keys, options, strict=True))
    members: dict[Any, list[Run]] = {}
    for key, run in zip(keys, runs, strict=True):
        members.setdefault(key, []).append(run)
    # Labels name the options that differ among trainings of one corpus, or among runs of one baseline.
    same_kind: dict[Any, list[Any]] = {}
    for key, mine in members.items():
        kind = (mine[0].corpus, mine[0].label if mine[0].is_baseline else None)
        same_kind.setdefault(kind, []).append(key)
    named: dict[Any, dict[str, str]] = {}
    for group in same_kind.values():
        labels = named_options([members[key][0] for key in group], [counted_of[key] for key in group])
        named |= dict(zip(group, labels, strict=True))
    return [_setting(mine, counted_of[key], named[key]) for key, mine in members.items()]


def _setting(runs: list[Run], counted: dict[str, Any], named: dict[str, str]) -> Setting:
    newest: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: run.finished_at):
        newest[int(run.config.seed)] = run
    chosen = [newest[seed] for seed in sorted(newest)]
    folders = {run.folder for run in chosen}
    return Setting(
        base=runs[0].label,
        named=named,
        options=flatten(OmegaConf.to_container(chosen[0].config)),
        counted=counted,
        runs=chosen,
        repeated=[run for run in runs if run.folder not in folders],
    )


def named_options(runs: list[Run], options: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For every setting, the options that its label names, each with its value as shown.

    An option that differs is left out only if another one implies it: the dimension of an encoder if there is one
    encoder of each name, the options of a graph if there is one kind of graph.

    Args:
        runs: One run of every setting; all of one corpus, and all trainings or all one baseline.
        options: The counted options of every setting.
    """
    varied = _varied(options)
    implied = {name for name in varied if _is_implied(name, varied, runs, options)}
    in_label = set() if runs[0].is_baseline else {"encoder.name"}  # of the run: "minilm, text alone"
    labels = _shown([name for name in varied if name not in implied | in_label], options)
    # If two settings would have the same label, it names all options that differ.
    if len({(run.label, *label.items()) for label, run in zip(labels, runs, strict=True)}) < len(labels):
        return _shown(varied, options)
    return labels


def option_label(name: str, value: str) -> str:
    """An option in a label, such as ``graph.rule=knn``."""
    parts = name.split(".")
    if parts[0] == "baselines":
        parts = parts[2:]  # baselines.bm25.k1 -> k1
    if parts[-1] in ("_target_", "name") and len(parts) > 1:
        parts = parts[:-1]  # text._target_ -> text
    return f"{'.'.join(parts)}={value}"


def _varied(options: list[dict[str, Any]]) -> list[str]:
    """Names of the options whose values differ, in the order of the configuration."""
    names = {name: None for flat in options for name in flat}
    return [name for name in names if len({comparable(flat.get(name)) for flat in options}) > 1]


def _is_implied(name: str, varied: list[str], runs: list[Run], options: list[dict[str, Any]]) -> bool:
    values = [comparable(flat.get(name)) for flat in options]
    # The label of a run says whether it has a graph.
    if name.split(".")[0] in ("graph", "fusion") and _determines([run.method for run in runs], values):
        return True
    # The checkpoint of a baseline's encoder is that of its run.
    if name.rsplit(".", 1)[-1] in CHECKPOINTS and "run" in varied:
        return _determines([comparable(flat.get("run")) for flat in options], values)
    # With split=year the corpus ends with the test year, so that the year says what the corpus holds.
    years = [comparable(flat.get("split.year")) for flat in options]
    if name == "dataset.contents" and "split.year" in varied and _determines(years, values):
        return True
    for other in varied[: varied.index(name)]:
        if other.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1] and _equal_where_both(other, name, options):
            return True
    return any(
        _determines([comparable(flat.get(marker)) for flat in options], values)
        for marker in _markers(name)
        if marker in varied
    )


def _markers(name: str) -> list[str]:
    """The options ``MARKERS`` of the sections around an option, which say what each section is."""
    parts = name.split(".")
    sections = [".".join(parts[:length]) for length in range(1, len(parts))]
    markers = [f"{section}.{key}" for section in sections for key in MARKERS]
    return markers[: markers.index(name)] if name in markers else markers


def _determines(first: list[Any], second: list[Any]) -> bool:
    """Whether equal values in ``first`` always have equal values in ``second``."""
    return len(set(first)) == len(set(zip(first, second, strict=True)))


def _equal_where_both(first: str, second: str, options: list[dict[str, Any]]) -> bool:
    """Whether one option repeats another, as ``batches.batch_size=${batch_size}`` does."""
    having = [flat for flat in options if second in flat]
    return all(comparable(flat.get(first)) == comparable(flat[second]) for flat in having)


def _shown(names: list[str], options: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Values in few characters if all values still differ, else in full."""
    labels: list[dict[str, str]] = [{} for _ in options]
    for name in names:
        values = {comparable(flat[name]): flat[name] for flat in options if name in flat}
        for depth in range(1, MAX_PATH_PARTS + 1):
            shown = {key: _short(name, value, depth) for key, value in values.items()}
            if len(set(shown.values())) == len(shown):
                break
        if len(set(shown.values())) < len(shown):
            shown = {key: _text(value) for key, value in values.items()}
        if len(set(shown.values())) < len(shown):
            shown = {key: repr(value) for key, value in values.items()}
        for flat, label in zip(options, labels, strict=True):
            if name in flat:
                label[name] = shown[comparable(flat[name])]
    return labels


def _short(name: str, value: Any, depth: int) -> str:
    """A value in few characters: a class without its module, the last parts of a path, the start of a fingerprint."""
    text = _text(value)
    if name.endswith("_target_"):
        return text.rsplit(".", 1)[-1]
    if name == "dataset.contents":
        return text[:CONTENTS_SHOWN]
    is_path = isinstance(value, str) and (Path(value).suffix or value.startswith(("/", "~", ".")))
    # normpath: models/x/../mine is models/mine
    return "/".join(Path(os.path.normpath(value)).parts[-depth:]) if is_path else text


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_text(item) for item in value)}]"
    return str(value)
