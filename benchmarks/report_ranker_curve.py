"""How many duplicates of its own a tracker needs before a ranker is trained on them: a figure and a table.

python benchmarks/report_ranker_curve.py FOLDER/reports.csv ... --output outputs/curve

Each tracker in turn is left out: the default ranker learns from the others. Rankers then learn from the latest 10 to
300 labelled queries before validation, or all of them, and are measured on validation.
"""

import argparse
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from ranker_card import write_curve
from report_lists import Tracker, fit_default, load_tracker, metrics, ranks

import gedbd
from gedbd.corpora.corpus import TRAIN, VAL
from gedbd.evaluation.figures import GREY, colour, save_figure
from gedbd.retrieval.report_ranking.report_ranker import DEFAULT, ReportRanker
from gedbd.retrieval.report_ranking.report_training import RankerOptions, fit_ranker, usable_queries

SIZES = (10, 30, 100, 300, 0)  # 0: all
PROJECT = Path(__file__).parents[1]
FIGURE = Path("docs/images/report_ranker_curve.png")
OPTIONS = RankerOptions(num_seeds=1, default_below=0)


def curve_of(tracker: Tracker, base: Path, num_draws: int) -> list[dict[str, Any]]:
    """The figures of one tracker, a row a method, size and draw."""
    val = tracker.of_part(VAL)
    usable = usable_queries(tracker.of_part(TRAIN))
    rows = []

    def measure(method: str, size: int, draw: int, ranker: ReportRanker) -> None:
        r1, r10, mrr = metrics(ranks(val, lambda one: ranker.scores(one.features)))
        rows.append({"tracker": tracker.name, "method": method, "queries": size, "draw": draw})
        rows[-1] |= {"rr@1": r1, "rr@10": r10, "mrr": mrr}
        print(rows[-1], flush=True)

    measure("default", 0, 0, fit_ranker([], replace(OPTIONS, base=str(base), default_below=1)))
    for size in SIZES:
        some = usable[-size:]
        for draw in range(num_draws if size else 1):
            own = replace(OPTIONS, seed=draw)
            measure("own", len(some), draw, fit_ranker(some, own))
            measure("stacked", len(some), draw, fit_ranker(some, replace(own, base=str(base))))
    return rows


def draw_curves(table: pd.DataFrame) -> Figure:
    """A panel a tracker: RR@10 by the number of own queries."""
    names = table["tracker"].unique()
    figure = Figure(figsize=(3.2 * len(names), 3.5), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    labels = {"own": "own queries alone", "stacked": "with the default's score"}
    for axis, name in zip(axes, names, strict=True):
        mine = table[table["tracker"] == name]
        axis.axhline(mine.loc[mine["method"] == "default", "rr@10"].iloc[0], color=GREY, ls="--", label="default")
        for place, (method, label) in enumerate(labels.items()):
            means = mine[mine["method"] == method].groupby("queries")["rr@10"].mean()
            axis.plot(means.index, means, marker="o", color=colour(place), label=label)
        axis.set(title=name, xlabel="own queries", xscale="log")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("RR@10 on validation")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Measures, and writes ``report_ranker_curve.csv``, the figure, and what the card says about own queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", help="exports; the folder's name is the tracker's")
    parser.add_argument("--backend", default="openvino_bf16")
    parser.add_argument("--lists", type=Path, help="folder that keeps the replayed queries")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("outputs/curve"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    trackers = [load_tracker(path, arguments.backend, 0, arguments.lists) for path in arguments.corpora]
    rows = []
    for left_out in trackers:
        base = arguments.output / f"without_{left_out.name}.json"
        if not base.is_file():
            base.write_text(fit_default([one for one in trackers if one is not left_out], 1, 120).to_text())
        rows += curve_of(left_out, base, arguments.draws)
        table = pd.DataFrame(rows)
        table.round(4).to_csv(arguments.output / "report_ranker_curve.csv", index=False)
    save_figure(draw_curves(table), (PROJECT / FIGURE).with_suffix(""), dpi=110)
    card = Path(gedbd.__file__).parent / "retrieval" / "report_ranking" / Path(DEFAULT).with_suffix(".md")
    write_curve(card, table, os.path.relpath(PROJECT / FIGURE, card.parent), date.today().isoformat())
    print(table.groupby(["tracker", "method", "queries"])[["rr@1", "rr@10", "mrr"]].mean().round(3).to_string())


if __name__ == "__main__":
    main()
