"""What a single training tells while it runs and at its end."""

import re

import pandas as pd
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from rich.console import Console

from gedbd.configuration.command import CONF_DIR

OPTIONS = ["encoder=tiny", "trainer.accelerator=cpu", "trainer.max_epochs=2", "+trainer.limit_train_batches=2"]


def test_a_training_prints_its_epochs_and_a_verdict(tmp_path):
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("train", [*OPTIONS, "graph=none", f"cache_dir={tmp_path}", "monitor=val/loss"])
    folder = tmp_path / "run"
    with (tmp_path / "printed.txt").open("w+") as file:
        instantiate(cfg.task).train(cfg, folder, Console(file=file, width=200))
        file.seek(0)
        told = file.read()
    assert "FLOPs" not in told
    epochs = pd.read_csv(folder / "metrics.csv")
    lines = re.findall(r"^epoch (.*)$", told, flags=re.MULTILINE)
    for number, (line, row) in enumerate(zip(lines, epochs.to_dict("records"), strict=True)):
        expected = f"{number + 1}/2: train loss {row['train/loss']:.3f}, val F1 {row['val/f1']:.3f}"
        best = " (best)" if row["val/loss"] == epochs["val/loss"][: number + 1].min() else ""
        assert line.startswith(f"{expected}, RR@10 {row['val/rr@10']:.3f}, val loss {row['val/loss']:.3f}{best}, ")
        assert line.endswith(" s")
    pairs, queries = told.splitlines()[-2:]
    results, ranking = pd.read_csv(folder / "results.csv"), pd.read_csv(folder / "ranking.csv")
    assert pairs.startswith(f"test F1 {results['f1'][0]:.3f} [")
    assert f"; always duplicate {results['f1'][2]:.3f}: " in pairs
    assert queries.startswith(f"test RR@10 {ranking['rr@10'][0]:.3f} [")
    assert f"; frozen encoder {ranking['rr@10'][1]:.3f}: " in queries
