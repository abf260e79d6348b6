"""Groups runs that differ only by seed into settings."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.report.labels import named_options, option_label
from gedbd.evaluation.report.options import counted_options, flatten, mark_seeds, setting_key
from gedbd.evaluation.run_folders import Run
from gedbd.evaluation.significance import f1_interval, mean_interval
from gedbd.retrieval.protocol_words import EARLIER, ProtocolWords
from gedbd.retrieval.ranking import per_query

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
        """Means over seeds of the metrics on pairs, and F1's interval over the pairs of all seeds."""
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

    def _predictions(self, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictions, labels and groups of the reported pairs, all seeds together."""
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
        return np.concatenate(predicted), np.concatenate(label), np.concatenate(group)


def ranked_protocols(settings: Iterable[Setting]) -> list[str]:
    """The protocols by which some runs have ranked, each once, in the order of the runs."""
    return list(dict.fromkeys(name for setting in settings for run in setting.runs for name in run.protocols))


def query_metrics(table: pd.DataFrame) -> dict[str, float]:
    """Means of the metrics of queries, and the intervals of RR@10, MRR and MAP@10 over queries.

    Args:
        table: The table of ``Setting.ranks``.
    """
    values = {name: float(table[name].mean()) for name in table.columns if name not in ("id", "group")}
    for name in (name for name in ("rr@10", "mrr", "map@10") if name in table):
        mean = table.groupby(["id", "group"])[name].mean().reset_index()
        ends = mean_interval(mean[name].to_numpy(), mean["group"].to_numpy())
        values |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
    return values


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
