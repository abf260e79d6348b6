"""The table of a sweep, written once all its runs have ended."""

from pathlib import Path
from typing import Any

import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.results import as_table


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
            alike = [name for name in settings if summary[name].nunique() == 1]
            console.print(as_table(summary.drop(columns=alike), f"{len(rows)} of {len(runs)} runs in {folder}"))

    @staticmethod
    def _row(run: Path) -> dict[str, Any]:
        overrides = dict(str(item).split("=", 1) for item in OmegaConf.load(run / ".hydra" / "overrides.yaml"))
        best = pd.read_csv(run / "results.csv").iloc[0].drop("method")
        return {"run": run.name} | overrides | {str(name): value for name, value in best.items()}
