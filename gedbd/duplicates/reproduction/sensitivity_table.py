"""Table and figure of metrics over options that a sweep has varied one at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from gedbd.evaluation.figures import colour
from gedbd.experiments.run_folder import Run
from gedbd.experiments.seeds import seed_interval

METRICS = ("f1", "average_precision", "rr@10")
COLUMNS = 3


@dataclass(frozen=True)
class Job:
    """A finished job of a sweep.

    Attributes:
        overrides: Its options by name, as they were typed.
        runs: Its runs, one a seed.
    """

    overrides: dict[str, str]
    runs: list[Run]

    def values(self, metric: str) -> list[float]:
        """A metric of the job's own method, one value a seed; empty if it was not measured."""
        found = []
        for run in self.runs:
            tables = [table for table in (run.results, run.ranking) if table is not None and metric in table]
            found += [float(table[metric][0]) for table in tables]
        return found


def find_jobs(sweep_dir: Path, runs: Sequence[Run]) -> list[Job]:
    """The jobs of a sweep that have left finished runs, in the order of their numbers."""
    files = [path for path in sweep_dir.glob("*/.hydra/overrides.yaml") if path.parent.parent.name.isdigit()]
    jobs = []
    for path in sorted(files, key=lambda path: int(path.parent.parent.name)):
        folder = path.parent.parent
        mine = [run for run in runs if run.folder == folder or folder in run.folder.parents]
        if mine:
            options: Any = OmegaConf.to_container(OmegaConf.load(path))  # not resolved: interpolations stay
            overrides = dict(str(item).split("=", 1) for item in options)
            jobs.append(Job(overrides, mine))
    return jobs


def sensitivity(jobs: Sequence[Job], options: Sequence[str]) -> pd.DataFrame:
    """Means of the metrics over seeds at each value of each option, with all other options at their base value.

    The base value of an option is the value of most jobs.

    Args:
        jobs: Jobs of one sweep.
        options: The options that were varied one at a time.

    Returns:
        ``setting`` (further options that the sweep varied, such as ``encoder=bert``, or ""), ``option``, ``value``,
        ``base`` (whether it is the base value), ``seeds``, and each metric with the ends of its 95% interval over seeds
        (Student's t; missing for a single seed).
    """
    keys = dict.fromkeys(key for job in jobs for key in job.overrides)  # in order, each once
    values = {key: Counter(job.overrides.get(key) for job in jobs) for key in (*keys, *options)}
    varied = {key for key in options if len(values[key]) > 1}
    base = {key: values[key].most_common(1)[0][0] for key in options}
    others = [key for key in keys if key not in options and len(values[key]) > 1]
    rows = []
    for option in options:
        if option not in varied:
            continue
        for job in jobs:
            # Jobs that vary this option only.
            if all(job.overrides.get(key) == base[key] for key in varied - {option}):
                setting = ", ".join(f"{key}={job.overrides.get(key)}" for key in others)
                value = job.overrides[option]
                first = {"setting": setting, "option": option, "value": value, "base": value == base[option]}
                rows.append(first | {"seeds": len(job.runs)} | _metrics(job))
    return pd.DataFrame(rows)


def _metrics(job: Job) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in METRICS:
        values = pd.Series(job.values(metric), dtype=float).to_numpy()
        if len(values):
            found |= dict(zip((metric, f"{metric}_low", f"{metric}_high"), seed_interval(values), strict=True))
    return found


def sensitivity_figure(table: pd.DataFrame, title: str) -> Figure:
    """F1 and, where it was measured, RR@10 over the values of each option, one panel an option.

    Error bars are 95% intervals over seeds; the marker of the base value is filled.

    Args:
        table: The rows of one setting, see ``sensitivity``.
        title: Title of the figure.
    """
    options = list(dict.fromkeys(table["option"]))
    rows = -(-len(options) // COLUMNS)  # rounded up
    figure = Figure(figsize=(3.6 * COLUMNS, 3 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axis in axes[len(options) :]:
        axis.axis("off")
    for axis, option in zip(axes, options, strict=False):
        mine = table[table["option"] == option]
        mine = mine.iloc[pd.to_numeric(mine["value"]).argsort(kind="stable")]
        for number, metric in enumerate(name for name in ("f1", "rr@10") if name in table):
            _draw(axis, mine, metric, colour(number))
        axis.set(xlabel=option, xticks=range(len(mine)), xticklabels=list(mine["value"]))
        axis.grid(alpha=0.25)
    axes[0].legend(frameon=False)
    figure.suptitle(title)
    return figure


def _draw(axis: Any, table: pd.DataFrame, metric: str, colour: Any) -> None:
    """Draws a metric at equal distances: on a true scale, values such as 1, 3, 10, 100 would overlap."""
    places = list(range(len(table)))
    mean = table[metric].to_numpy()
    bars = [mean - table[f"{metric}_low"].to_numpy(), table[f"{metric}_high"].to_numpy() - mean]
    bars = [ends.clip(min=0) for ends in bars]  # rounding may make the end of an empty interval negative
    name = metric.upper()
    axis.errorbar(places, mean, yerr=bars, capsize=3, marker="o", markerfacecolor="white", color=colour, label=name)
    chosen = table["base"].to_numpy()
    axis.plot([place for place in places if chosen[place]], mean[chosen], "o", color=colour, zorder=3)
