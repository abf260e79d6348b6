"""The table over the runs of a sweep. Hydra loads this module at every start, so it imports little."""

from pathlib import Path
from typing import Any

import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

SUMMARISED = ("f1", "average_precision", "rr@10", "mrr")


class SweepTable(Callback):
    """Gathers the test results of a sweep's run folders into ``summary.csv`` beside them, and prints them."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Reads what each run has left; runs without results are counted."""
        from gedbd.results import as_table

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
