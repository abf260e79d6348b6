"""What speed costs: validation after one epoch of the paper's pairs in random order, and of whole groups.

The paper's loop and ``pairs=sampled`` compute the same loss and gradient, which a test holds; so its quality is that of
``pairs=shuffled``. Three seeds, the newest 12,000 reports, cut to 64 tokens.
"""

from typing import Any

import numpy as np
import pytorch_lightning as pl
from measure import Row
from paper_loop import PAIRS
from prepared_data import configuration
from rich.console import Console

from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.duplicates_task import DuplicatesTask
from gedbd.evaluation.significance import Comparison, compare_f1, compare_means
from gedbd.experiments.retrieval_module import Embedded
from gedbd.retrieval.ranking_tasks import per_query

SEEDS = 3
OPTIONS = ["encoder.max_tokens=64", "optimizer.lr=2e-5", "ranking.parts=[val]"]


class Keeping(DuplicateDetector):
    """Keeps the scores and rankings of validation."""

    def validate(self, reports: Embedded) -> None:
        self.kept = self.score(reports, "val").table
        self.ranked = self.data.rank_queries(reports, "val")
        super().validate(reports)


def main() -> list[Row]:
    """Trains six times and compares query by query, pair by pair; groups are resampled."""
    runs = {name: [_epoch(name, seed) for seed in range(SEEDS)] for name in ("paper", "grouped")}
    ours, paper = runs["grouped"], runs["paper"]
    rr, rr_paper = (np.mean([run["rr@10"] for run in some], axis=0) for some in (ours, paper))
    pairs = {name: np.concatenate([run[name] for run in ours]) for name in ("predicted", "label", "pair_group")}
    predicted = np.concatenate([run["predicted"] for run in paper])
    f1 = compare_f1(pairs["predicted"], predicted, pairs["label"], pairs["pair_group"])
    return [
        _row("RR@10", compare_means(rr, rr_paper, ours[0]["query_group"]), len(rr)),
        _row("F1", f1, len(ours[0]["label"])),
    ]


def _row(metric: str, compared: Comparison, count: int) -> Row:
    more = f"{compared.difference:+.3f} [{compared.low:+.3f}, {compared.high:+.3f}]"
    note = f"{more} to the paper's loop, {compared.second:.3f}"
    return Row(
        "one epoch, validation",
        f"{metric} of pairs=grouped",
        compared.first,
        metric,
        note=f"{note}; {SEEDS} seeds, {count} each",
    )


def _epoch(name: str, seed: int) -> dict[str, np.ndarray]:
    """One epoch and what validation says after it."""
    chosen = ["pairs=grouped"] if name == "grouped" else ["pairs=shuffled", f"batch_size={PAIRS}"]
    cfg = configuration(*OPTIONS, *chosen, f"seed={seed}")
    if "last_n" in cfg.dataset:
        cfg.dataset.last_n = 12_000
    data, system, *_ = DuplicatesTask().build(cfg, Console(quiet=True))
    system.__class__ = Keeping
    assert isinstance(data, BugReports)
    assert isinstance(system, Keeping)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    options: dict[str, Any] = {"accelerator": "cpu", "max_epochs": 1, "gradient_clip_val": 1.0, **quiet}
    pl.Trainer(num_sanity_val_steps=0, **options).fit(system, data)
    queries, pairs = system.ranked["earlier"]["score"].queries, system.kept
    group = data.corpus.group
    return {
        "rr@10": per_query(queries)["rr@10"].to_numpy(),
        "query_group": group[queries["query"]],
        "predicted": pairs["score"].to_numpy() >= float(system.threshold),
        "label": pairs["label"].to_numpy(),
        "pair_group": group[pairs["later"]],
    }
