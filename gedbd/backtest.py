"""Measure suggestions on a tracker's own history: ``python -m gedbd.backtest dataset=csv dataset.path=...``."""

import os
import shlex
from datetime import datetime
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.configuration.renamed_options import refuse_renamed
from gedbd.corpora.documents import Corpus
from gedbd.evaluation.report.page import write_report
from gedbd.evaluation.run_folders import MATCHING
from gedbd.experiments.checkpoint import check_corpus, save_run, use_run
from gedbd.io.files import write_text
from gedbd.io.library_logs import silence_library_logs
from gedbd.io.spreadsheet import safe_cells
from gedbd.io.tables import write_csv, write_parquet
from gedbd.tasks.duplicates.factory import prepare_data
from gedbd.triage.assembly import check_backtest, read_reports
from gedbd.triage.backtesting.backtest import Backtest, measure
from gedbd.triage.backtesting.page import fill_targets, next_step, print_targets, sections, summary, targets_markdown
from gedbd.triage.training import learn_weights, replay_parts


@refuse_renamed({"precision": "target_precision"})
@command("backtest")
def main(cfg: DictConfig) -> float:
    """Learns on the older reports, replays the newer ones, leaves tables and a page, and returns test's precision."""
    console, folder = Console(), Path(HydraConfig.get().runtime.output_dir)
    weights = use_run(cfg, Path(cfg.run)) if cfg.run else None
    check_backtest(cfg)
    silence_library_logs()
    prepared = prepare_data(cfg, console)
    corpus = prepared.corpus
    if cfg.run:
        check_corpus(Path(cfg.run), corpus)
    if cfg.fill:
        fill_targets(Path(cfg.fill).read_text(), corpus.name, "")
    read = read_reports(cfg, corpus, weights)
    for notice in read.notices:
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    learnt = learn_weights(corpus, prepared.pairs[prepared.pairs["part"] == "train"], read.vectors)
    replayed = replay_parts(corpus, prepared.parts, read.vectors, learnt, cfg.most)
    backtest = measure(replayed, corpus, learnt, cfg.target_precision, cfg.confidence_level, cfg.seed)
    save_run(folder, cfg, corpus)
    write_parquet(folder / "matches.parquet", replayed)
    step = next_step(backtest.matching, os.path.relpath(folder))
    page = write_backtest(folder, corpus, backtest, step)
    if cfg.fill:
        filled = fill_targets(Path(cfg.fill).read_text(), corpus.name, targets_markdown(corpus.name, backtest))
        write_text(Path(cfg.fill), filled)
    print_targets(console, backtest.tables["targets"])
    console.print(summary(backtest), highlight=False)
    console.print(f"calibration error on test: {backtest.calibration_error:.4f}", highlight=False)
    for line in (f"Next: {step[0]}", f"  {step[1]}", f"page: {page}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return backtest.matching.target.precision or 0.0


def write_backtest(folder: Path, corpus: Corpus, backtest: Backtest, step: tuple[str, str]) -> Path:
    """Writes what was learnt, the tables and the page into the run folder; gives the path of the page.

    Args:
        folder: The run folder.
        corpus: The reports.
        backtest: What was learnt and measured.
        step: What the reader can do next, see ``next_step``.
    """
    for name, table in backtest.tables.items():
        write_csv(folder / f"{name}.csv", safe_cells(table))
    write_text(folder / "targets.md", targets_markdown(corpus.name, backtest) + "\n")
    write_text(folder / MATCHING, backtest.matching.as_json())  # last: with it the backtest counts as finished
    command = shlex.join(["python", "-m", "gedbd.backtest", *HydraConfig.get().overrides.task])
    return write_report(
        folder,
        f"Backtest: {corpus.name}",
        summary(backtest),
        sections(backtest),
        command=command,
        date=datetime.now().astimezone(),
        next_steps=[step],
    )


if __name__ == "__main__":
    main()
