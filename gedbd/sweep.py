"""Tables over several runs: a sweep's, and one setting's over seeds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from scipy.stats import t

from gedbd.results import as_table
from gedbd.run import best_f1

SUMMARISED = ("f1", "average_precision", "rr@10", "mrr")


class SweepTable(Callback):
    """Gathers the test results of a sweep's run folders into ``summary.csv`` beside them, and prints them."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Reads what each run has left; runs without results are counted."""
        folder, console = Path(config.hydra.sweep.dir), Console()
        runs = sorted(
            (path.parent.parent for path in folder.glob("*/.hydra/overrides.yaml")), key=lambda p: int(p.name)
        )
        rows = [self._row(run) for run in runs if (run / "results.csv").is_file()]
        if rows:
            summary = pd.DataFrame(rows)
            summary.to_csv(folder / "summary.csv", index=False)
            settings = summary.columns[1 : summary.columns.get_loc("threshold")]
            varied = [name for name in settings if summary[name].nunique() > 1]
            shown = summary[["run", *varied, *(name for name in SUMMARISED if name in summary)]]
            console.print(as_table(shown, f"{len(rows)} of {len(runs)} runs in {folder}"))

    @staticmethod
    def _row(run: Path) -> dict[str, Any]:
        overrides = dict(str(item).split("=", 1) for item in OmegaConf.load(run / ".hydra" / "overrides.yaml"))
        tables = [run / name for name in ("results.csv", "ranking.csv") if (run / name).is_file()]
        first = [pd.read_csv(table).iloc[0].drop(["method"]) for table in tables]
        found = {str(name): value for row in first for name, value in row.items()}
        return {"run": run.name} | overrides | found


def summarise_seeds(folder: Path, console: Console) -> pd.DataFrame:
    """Writes ``seeds.csv``, every method's metrics in each seed's run, and shows their means over seeds.

    The interval is Student's, over seeds alone: how far another seed may lead, not other test reports.

    Returns:
        What ``seeds.csv`` holds; ``val_f1`` is of the best checkpoint.
    """
    frames = []
    for run in sorted(folder.glob("seed_*"), key=lambda path: int(path.name.removeprefix("seed_"))):
        table = pd.read_csv(run / "results.csv")
        if (run / "ranking.csv").is_file():
            table = table.merge(pd.read_csv(run / "ranking.csv"), on="method", how="left")
        monitor = OmegaConf.load(run / "config.yaml").monitor
        frames.append(table.assign(seed=int(run.name.removeprefix("seed_")), val_f1=best_f1(run, monitor)))
    seeds = pd.concat(frames, ignore_index=True)
    seeds.to_csv(folder / "seeds.csv", index=False)
    shown = [name for name in SUMMARISED if name in seeds]
    means = seeds.groupby("method", sort=False)[shown].agg(mean_and_half).reset_index()
    console.print(as_table(means, f"mean ± 95% over {seeds['seed'].nunique()} seeds: {folder}"))
    return seeds


def mean_and_half(values: pd.Series) -> str:
    """Mean and half its 95% interval by Student's t, for reading; of a single value there is no interval."""
    mean, low, high = seed_interval(values.to_numpy())
    return f"{mean:.3f}" if np.isnan(low) else f"{mean:.3f} ± {(high - low) / 2:.3f}"


def seed_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and the ends of its 95% interval by Student's t; the ends are nan for a single value."""
    if len(values) < 2:
        return float(values.mean()), float("nan"), float("nan")
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)
