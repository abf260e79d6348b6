"""Runs that differ by nothing but their seed are one setting."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from gedbd.data.queries import EARLIER
from gedbd.evaluation.ranking import per_query
from gedbd.evaluation.runs import Run
from gedbd.evaluation.significance import f1_interval, mean_interval

TOLD = ("dataset.", "encoder.", "fusion._target_", "graph.titles", "ranking.parts")
ENCODERS_OWN = ("encoder.max_tokens", "encoder.dim")
SEED_FOLDER = re.compile(r"/seed_\d+/?$")
NO_SETTING = ("seed", "seeds", "ckpt_path", "cache_dir", "data_dir", "logger", "trainer", "patience", "baselines")


@dataclass(frozen=True)
class Setting:
    """One setting and its runs, one a seed.

    Attributes:
        label: What tells it from the other settings of the report.
        options: Its configuration, flat: ``graph.pca_dim`` and the like.
        runs: In the order of their seeds.
    """

    label: str
    options: dict[str, Any]
    runs: list[Run]

    @property
    def corpus(self) -> str:
        """Name of the corpus."""
        return self.runs[0].corpus

    @property
    def methods(self) -> list[str]:
        """The methods that were scored, the setting's own first; ``always duplicate`` is left out."""
        return list(self.runs[0].results["method"][:-1])

    def pair_metrics(self, method: str) -> dict[str, float]:
        """Means over seeds of the metrics on pairs, and F1's interval over the pairs of all seeds."""
        rows = [run.results[run.results["method"] == method].iloc[0] for run in self.runs]
        values = {name: float(np.mean([row[name] for row in rows])) for name in rows[0].index if name != "method"}
        low, high = f1_interval(*self._verdicts(method))
        return values | {"f1_low": low, "f1_high": high}

    def rank_metrics(self, method: str, protocol: str = EARLIER) -> dict[str, float] | None:
        """Means over seeds of the metrics on queries, and intervals over queries; None if nothing was ranked."""
        table = self.ranks(method, protocol)
        if table is None:
            return None
        values = {name: float(table[name].mean()) for name in table.columns if name not in ("issue_id", "group")}
        for name in (name for name in ("rr@10", "mrr", "map@10") if name in table):
            mean = table.groupby(["issue_id", "group"])[name].mean().reset_index()
            ends = mean_interval(mean[name].to_numpy(), mean["group"].to_numpy())
            values |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
        return values

    def ranks(self, method: str, protocol: str = EARLIER) -> pd.DataFrame | None:
        """Rank, reachability and metrics of every query and seed."""
        tables = [run.queries_of(protocol) for run in self.runs]
        if any(table is None for table in tables):
            return None
        every = pd.concat([table for table in tables if table is not None])
        every = every[every["method"] == method].reset_index(drop=True)
        return pd.concat([every[["issue_id", "group", "reachable", "rank"]], per_query(every)], axis=1)

    def scores(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of the reported pairs, all seeds together."""
        tables = [run.predictions[run.predictions["part"] == run.part] for run in self.runs]
        every = [table[run.column(method)].to_numpy() for run, table in zip(self.runs, tables, strict=True)]
        return np.concatenate(every), np.concatenate([table["label"].to_numpy() for table in tables])

    def _verdicts(self, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        called, label, group = [], [], []
        for run in self.runs:
            table = run.predictions[run.predictions["part"] == run.part]
            threshold = run.results.loc[run.results["method"] == method, "threshold"].iloc[0]
            scores = table[run.column(method)].to_numpy()
            called.append(scores >= np.asarray(threshold, dtype=scores.dtype))
            label.append(table["label"].to_numpy())
            group.append(table["group"].to_numpy(dtype=str))
        return np.concatenate(called), np.concatenate(label), np.concatenate(group)


def group_settings(runs: Iterable[Run]) -> list[Setting]:
    """Settings in the order of their first run, each named by what varies among those of its kind and corpus."""
    found: dict[str, list[Run]] = {}
    options: dict[str, dict[str, Any]] = {}
    for run in runs:
        flat = flatten(OmegaConf.to_container(run.config))
        flat = {name: _no_seed(name, value) for name, value in flat.items() if _shapes(name)}
        key = repr(sorted(flat.items(), key=lambda item: item[0]))
        found.setdefault(key, []).append(run)
        options[key] = flat
    kinds = {key: (mine[0].corpus, mine[0].is_baseline) for key, mine in found.items()}
    varied = {
        kind: [
            name
            for name in _varied([options[key] for key in found if kinds[key] == kind])
            if not kind[1] or name.startswith("text.")
        ]
        for kind in set(kinds.values())
    }
    settings = []
    for key, mine in found.items():
        more = [_told(name, options[key][name]) for name in varied[kinds[key]] if name in options[key]]
        label = ", ".join([mine[0].label, *more])
        settings.append(Setting(label, options[key], sorted(mine, key=lambda run: int(run.config.seed))))
    return settings


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """``{"graph": {"pca_dim": 10}} -> {"graph.pca_dim": 10}``."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def _no_seed(name: str, value: Any) -> Any:
    """The encoders that several seeds have trained are one setting: ``seeds=5`` keeps them in folders side by side."""
    return SEED_FOLDER.sub("", value) if name == "run" and value else value


def _shapes(name: str) -> bool:
    return name.split(".")[0] not in NO_SETTING and not name.endswith(".seed") and name != "split.fold"


def _varied(options: list[dict[str, Any]]) -> list[str]:
    """Names whose values differ, but for those that a label tells already; an encoder's own only where it is one."""
    names = {name: None for flat in options for name in flat if not name.startswith(TOLD)}
    encoders = {flat["encoder.name"] for flat in options}
    own = [name for name in ENCODERS_OWN if len(encoders) == 1 and _differs(name, options)]
    return [name for name in names if _differs(name, options)] + own


def _differs(name: str, options: list[dict[str, Any]]) -> bool:
    return len({repr(flat[name]) for flat in options if name in flat}) > 1


def _told(name: str, value: Any) -> str:
    """``graph.rule=knn``: of a target its last name, of a file its name."""
    if name.endswith("._target_"):
        return f"{name.removesuffix('._target_')}={str(value).rsplit('.', 1)[-1]}"
    return f"{name}={Path(value).name if isinstance(value, str) else value}"
