import json
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf
from run_commands import composed

from gedbd.experiments.run_folder import SCHEMA, Run

GROUPS = ("encoder", "graph", "fusion", "text", "split", "protocol")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Intervals by fewer samples, as no test here looks at their ends."""
    monkeypatch.setattr("gedbd.evaluation.significance.RESAMPLES", 100)


@pytest.fixture
def leave(tmp_path: Path) -> Callable[..., Run]:
    """Leaves a finished run folder, configured as ``gedbd.train`` (or ``gedbd.commands.baseline``) is by overrides."""

    def run(
        name: str,
        *overrides: str,
        command: str = "train",
        corpus: str = "0b6",
        time: int = 0,
        f1: float = 0.5,
        seconds: float | None = None,
    ) -> Run:
        groups = [item for item in overrides if item.partition("=")[0] in GROUPS]
        options = [item for item in overrides if item not in groups]
        cfg = composed(command, "encoder=tiny", *groups)
        OmegaConf.set_struct(cfg, False)
        cfg.merge_with_dotlist(options)
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(OmegaConf.to_container(cfg, resolve=True)))
        graph = command == "train" and cfg.graph.rule is not None and not cfg.fusion._target_.endswith("TextOnly")
        own = cfg.name if command == "baseline" else "text_graph" if graph else "text"
        results = pd.DataFrame({"method": [own, "always_duplicate"], "threshold": 0.5, "f1": [f1, 0.2]})
        results.to_csv(folder / "results.csv", index=False)
        predictions = folder / "predictions.parquet"
        pairs = pd.DataFrame(
            {"id_1": ["1"], "id_2": ["2"], "label": [1], "score": [0.9], "part": ["test"], "group": ["1"]}
        )
        pairs.to_parquet(predictions, index=False)
        os.utime(predictions, (time, time))
        about = {"schema": SCHEMA, "corpus": corpus, "overrides": ["encoder=tiny", *overrides]}
        (folder / "versions.json").write_text(json.dumps(about))
        if seconds is not None:
            curves = {"epoch": [0, 1], "train/seconds": [seconds, seconds], "train/loss": 0.5, "val/loss": 0.5}
            epochs = pd.DataFrame(curves | {"train/f1": 0.5, "val/f1": 0.5})
            epochs.to_csv(folder / "metrics.csv", index=False)
        return Run(folder)

    return run
