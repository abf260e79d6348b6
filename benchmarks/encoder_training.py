"""What a number of training steps gains an encoder, by ranking the validation part: a table. The test part is not read.

python benchmarks/encoder_training.py FOLDER/reports.csv --steps 20 160 --options encoder=minilm

Training has the settings of ``experiment=best`` without hard negatives and in bfloat16. A ranking compares the
validation part's reports with each other. The time is that of the steps, without encoding for the ranking.
"""

import argparse
import os
from collections.abc import Iterator
from itertools import cycle
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import torch
from measure import peak_mb
from prepared_data import attach, configuration
from rich.console import Console

from gedbd.duplicates.bug_reports import Batch, BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.duplicates_task import DuplicatesTask
from gedbd.evaluation.significance import mean_interval
from gedbd.experiments.retrieval_module import spread
from gedbd.io.command_output import print_table
from gedbd.io.console import open_console
from gedbd.retrieval.ranking_tasks import per_query, rank

SETTINGS = [
    "experiment=best",
    "task=duplicates",
    "batches.hard=0",
    "ranking.ranker=false",
    "ranking.parts=[val]",
    "protocol=test_pool_alone",
    "backend=openvino_bf16",  # of the untrained encoder
]
METRICS = {"rr@10": "RR@10", "mrr": "MRR"}


def prepared(options: list[str]) -> tuple[BugReports, DuplicateDetector]:
    """Data with the vectors of the untrained encoder for validation, and the model."""
    setup = DuplicatesTask().build(configuration(*SETTINGS, *options), Console(stderr=True), ("val",))
    assert isinstance(setup.data, BugReports)
    assert isinstance(setup.system, DuplicateDetector)
    attach(setup.data, setup.system)
    return setup.data, setup.system


def train(data: BugReports, system: DuplicateDetector, steps: list[int]) -> Iterator[tuple[int, float, float]]:
    """Trains, and stops at each number of steps with the seconds so far: by the clock, and of processor time."""
    loader = data.train_dataloader()
    batches: Iterator[Batch] = (batch for epoch in cycle([loader]) for batch in epoch)
    optimizer = system.configure_optimizers()["optimizer"]
    wall = processor = 0.0
    for step, batch in enumerate(batches, start=1):
        started = perf_counter(), process_time()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = system.training_step(batch, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(system.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        wall += perf_counter() - started[0]
        processor += process_time() - started[1]
        if step in steps:
            yield step, wall, processor
        if step == max(steps):
            return


def encoded(data: BugReports, system: DuplicateDetector) -> tuple[np.ndarray, np.ndarray]:
    """Rows and unit vectors of the validation part."""
    rows, vectors = [], []
    system.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for batch in data.load_rows("val"):
            rows.append(batch.n_id)
            vectors.append(torch.nn.functional.normalize(system.encoder(batch.input_ids, batch.attention_mask)))
    system.train()
    return torch.cat(rows).numpy(), torch.cat(vectors).numpy()


def ranked(data: BugReports, rows: np.ndarray, vectors: np.ndarray) -> pd.DataFrame:
    """The metrics of every query."""
    (task,) = data.queries["val"].values()
    queries = rank(task, spread(rows, vectors, len(data.corpus))).queries
    return per_query(queries).assign(group=data.corpus.group[queries["query"]])


def shown(found: pd.DataFrame, first: pd.DataFrame) -> dict[str, str]:
    """Means with 95% intervals, and the difference from the untrained encoder with its own."""
    cells = {}
    group = found["group"].to_numpy()
    for name, title in METRICS.items():
        for values, column in ((found[name], title), (found[name] - first[name], f"{title}, gain")):
            low, high = mean_interval(values.to_numpy(), group)
            cells[column] = f"{values.mean():.3f} ({low:.3f} to {high:.3f})"
    return cells


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Ranks validation before and after some steps of training.")
    parser.add_argument("corpus", help="CSV file of reports in bughub's columns")
    parser.add_argument("--steps", type=int, nargs="+", default=[20], help="numbers of steps to rank after")
    parser.add_argument("--options", nargs="+", default=[], help="options of gedbd train, such as encoder=minilm")
    chosen = parser.parse_args()
    os.environ["BENCHMARK_CORPUS"] = chosen.corpus
    data, system = prepared(chosen.options)
    assert data.frozen is not None
    first = ranked(data, *data.frozen)
    rows = [{"steps": 0, "seconds": "", "peak MB": "", **shown(first, first)}]
    for step, wall, processor in train(data, system, chosen.steps):
        spent = f"{wall:.0f}, of the processor {processor:.0f}"
        peak = f"{peak_mb():,.0f}"  # before validation is encoded
        rows.append(
            {"steps": step, "seconds": spent, "peak MB": peak, **shown(ranked(data, *encoded(data, system)), first)}
        )
    title = f"{len(first)} queries, {len(data.needed('val'))} reports, {len(data.train_dataloader())} steps an epoch"
    print_table(open_console(), pd.DataFrame(rows), title)


if __name__ == "__main__":
    main()
