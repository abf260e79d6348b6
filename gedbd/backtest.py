"""Measure suggestions on a tracker's own history: ``python -m gedbd.backtest dataset=csv dataset.path=...``."""

from pathlib import Path

import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from gedbd.build import quieten, read_material
from gedbd.checkpoint import check_corpus, save_run, use_run
from gedbd.config import door
from gedbd.evaluation.report.page import write_report
from gedbd.matching.backtest import calibration, suggestions, tables_of
from gedbd.matching.learn import learn_matching, learn_weights, replay_parts
from gedbd.matching.page import print_promises, sections, summary
from gedbd.triage import MATCHING, check_backtest, read_reports


@door("backtest")
def main(cfg: DictConfig) -> float:
    """Learns on the older reports, replays the newer ones, leaves tables and a page, and returns test's precision."""
    console, folder = Console(), Path(HydraConfig.get().runtime.output_dir)
    weights = use_run(cfg, Path(cfg.run)) if cfg.run else None
    check_backtest(cfg)
    quieten()
    material = read_material(cfg, console)
    corpus, group = material.corpus, material.corpus.group
    if cfg.run:
        check_corpus(Path(cfg.run), corpus)
    read = read_reports(cfg, corpus, weights)
    for notice in read.notices:
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    learnt = learn_weights(corpus, material.pairs[material.pairs["part"] == "train"], read.vectors)
    replayed = replay_parts(corpus, material.parts, read.vectors, learnt, cfg.most)
    matching = learn_matching(replayed, learnt, cfg.precision, cfg.seed)
    val, test = (suggestions(replayed, matching, group, part) for part in ("val", "test"))
    tables, error = tables_of(val, test, corpus, matching), calibration(test)
    save_run(folder, cfg, corpus)
    (folder / MATCHING).write_text(matching.as_json())
    replayed.to_parquet(folder / "matches.parquet", index=False)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    at = tables["thresholds"].set_index("threshold").reindex([matching.threshold]).iloc[0]
    said = summary(val, test, at, matching)
    page = write_report(folder, f"Backtest: {corpus.name}", said, sections(tables, matching, error))
    print_promises(console, tables["promises"])
    console.print(said, highlight=False)
    console.print(f"calibration error on test: {error:.4f}", highlight=False)
    console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    return float(np.nan_to_num(at["precision"]))


if __name__ == "__main__":
    main()
