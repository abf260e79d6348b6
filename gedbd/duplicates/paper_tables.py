"""Results of a sweep beside the numbers of the graph-enhanced transformer's paper, with notes on what can be compared.

Each row is a model on a corpus. If the paper has this model and corpus, its numbers are in the same row, in columns
that begin with ``paper``; the paper's other models follow in rows of their own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import TEXT_GRAPH
from gedbd.evaluation.figures import colour, finish_epochs, save_figure
from gedbd.evaluation.result_tables import example_pairs
from gedbd.experiments.published import (
    beside,
    corpus_note,
    finished_runs,
    paper_markdown,
    print_paper_table,
    read_published,
    readable,
)
from gedbd.experiments.report.report_page import slug
from gedbd.experiments.report.run_settings import Setting, by_corpus, group_settings
from gedbd.io.console import open_console, print_line, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv

NAME = "paper_tables"
TITLES = {
    "table3": "Similarities of validation pairs, with the paper's Table 3",
    "table4": "Minutes of a training epoch, with the paper's Table 4",
    "table5": "Precision, recall and F1 on test pairs, with the paper's Table 5",
    "figure2": "Test pairs by label and prediction, with the paper's Figure 2",
    "figures34": "Loss and F1 by epoch, with the paper's Figures 3 and 4",
}
HEADINGS = {"precision": "P", "recall": "R", "f1": "F1", "relative": "rel."}
PAPER = (
    'Columns "paper ..." are the numbers of Bayramoğlu et al., measured on Eclipse Platform and Thunderbird on an A100'
    " with 80 GB. By its authors' code, 50,000 pairs of each were split at random; the paper states neither. Empty: not"
    " in the paper."
)
METRICS = {
    "table3": ("similarity",),
    "table4": ("minutes", "relative"),
    "table5": ("precision", "recall", "f1"),
    "figure2": ("tn", "fp", "fn", "tp", "accuracy"),
    "figures34": ("train/loss", "val/loss", "train/f1", "val/f1"),
}
CONDITIONS = {"table3": "pair", "figures34": "epoch"}  # what tells the rows of one model and corpus apart
PANELS = {"Loss": "loss", "F1": "f1"}
Row = dict[str, Any]


def write_tables(sweep_dir: Path) -> None:
    """Writes ``paper_tables.md``, a CSV file for each table and a figure for each corpus, and prints the tables.

    They show all finished runs of a sweep.
    """
    console = open_console()
    runs = [run for run in finished_runs(NAME, sweep_dir, console) if not run.is_baseline]
    if not runs:
        return
    settings = group_settings(runs)
    notes = [*map(_corpus_note, by_corpus(settings).values()), PAPER]
    figures = {f"figures34_{slug(mine[0].corpus)}": convergence(mine) for mine in by_corpus(settings).values()}
    sections = [paper_markdown("The graph-enhanced transformer: measured and published", notes, [])]
    for name, title in TITLES.items():
        table = paper_table(settings, name)
        write_csv(sweep_dir / f"{name}.csv", table)
        if name == "figure2":
            table = table.convert_dtypes()  # whole numbers without decimals
        if name != "figures34":  # too wide for a terminal
            print_paper_table(console, table, title, HEADINGS)
        sections.append("#" + paper_markdown(title, [], [readable(table, HEADINGS)]))
    for stem, figure in figures.items():
        save_figure(figure, sweep_dir / stem)
        sections.append(f"![{TITLES['figures34']}]({stem}.png)\n")
    write_text(sweep_dir / f"{NAME}.md", "\n".join(sections))
    for note in notes:
        print_line(console, note)
    print_path(console, "tables and figures:", sweep_dir / f"{NAME}.md")


def _corpus_note(settings: Sequence[Setting]) -> str:
    """A note on a corpus: what was measured, whether the paper used it, and the F1 of baselines without text."""
    first = settings[0]
    run = first.runs[0]
    labels = run.reported_pairs["label"]
    note = corpus_note(settings, f", {len(labels):,} test pairs, {labels.mean():.0%} of them duplicates")
    if not is_published(first):
        note += f" {first.corpus} is not the paper's data: do not compare its rows with the paper's."
    return note + (
        f" Without any text, chains of training pairs give F1 {run.leak['closure_f1']:.3f} on these test pairs, and"
        f" always predicting a duplicate gives {run.leak['always_duplicate_f1']:.3f}."
    )


def is_published(setting: Setting) -> bool:
    """Whether a setting has the paper's corpus: the reports of a published training file."""
    subset = setting.runs[0].config.dataset.get("subset")
    return bool(subset == "train") and setting.corpus in {"eclipse", "thunderbird"}


def paper_table(settings: Sequence[Setting], item: str) -> pd.DataFrame:
    """Measured numbers beside those of a table or figure of the paper.

    Args:
        settings: The settings.
        item: ``table5``: precision, recall and F1 on test pairs, means over seeds; F1 with its interval over test
            pairs. ``table4``: minutes of an epoch, means over epochs and seeds, and their ratio to BERT with text
            alone on that corpus or, without such a run, to the corpus's first run with text alone. ``figure2``: test
            pairs that are no duplicates and predicted so (``tn``) or not (``fp``), duplicates that are missed (``fn``)
            or found (``tp``), means over seeds, and the accuracy. ``figures34``: loss and F1 of training and validation
            after each epoch, means over seeds. ``table3``: three duplicate pairs and three other pairs of validation
            that are nearest to the median similarity of their class, of the first seed.
    """
    make_rows: dict[str, Callable[[Setting], Sequence[Mapping[Any, Any]]]] = {
        "table3": _examples,
        "table4": lambda setting: [_minutes(setting, settings)],
        "table5": lambda setting: [_on_pairs(setting)],
        "figure2": lambda setting: [_confusion(setting)],
        "figures34": lambda setting: mean_epochs(setting).to_dict("records"),
    }
    published: dict[object, Row] = {}
    for row in read_published("duplicates", item).to_dict("records"):
        columns: Row = {"corpus": row["corpus"], "model": row["name"], "seeds": ""}
        condition = int(row["condition"]) if item == "figures34" else row["condition"] or None
        columns |= {CONDITIONS[item]: condition} if condition else {}
        published[row["corpus"], row["method"], condition] = columns | {name: row[name] for name in METRICS[item]}

    def measured() -> Iterator[tuple[object, Row]]:
        for setting in settings:
            columns = {"corpus": setting.corpus, "model": setting.label, "seeds": str(len(setting.runs))}
            for row in make_rows[item](setting):
                key = (setting.corpus, setting.base, row.get(CONDITIONS.get(item)))
                yield key if is_published(setting) else None, columns | dict(row)

    rows, only_paper = beside(measured(), published, METRICS[item])
    return pd.DataFrame([*rows, *only_paper])


def _examples(setting: Setting) -> list[Row]:
    pairs = example_pairs(setting.runs[0].predictions, "val")
    return [
        {"pair": f"{'duplicates' if row.label else 'others'}: {row.id_1} and {row.id_2}", "similarity": row.score}
        for row in pairs[pairs["example"] == "typical"].itertuples()
    ]


def _on_pairs(setting: Setting) -> Row:
    values = setting.pair_metrics(setting.methods[0])
    return {name: values[name] for name in (*METRICS["table5"], "f1_low", "f1_high")}


def _confusion(setting: Setting) -> Row:
    counts = setting.confusion(setting.methods[0])
    return dict(zip(METRICS["figure2"], [*counts.ravel(), counts.trace() / counts.sum()], strict=True))


def _minutes(setting: Setting, settings: Sequence[Setting]) -> Row:
    text_only = [other for other in settings if other.corpus == setting.corpus and other.methods[0] != TEXT_GRAPH]
    text_only.sort(key=lambda other: other.runs[0].config.encoder.name != "bert")  # stable: BERT first, others in order
    minutes = minutes_per_epoch(setting)
    return {"minutes": minutes, "relative": minutes / minutes_per_epoch(text_only[0]) if text_only else np.nan}


def minutes_per_epoch(setting: Setting) -> float:
    """Mean over the epochs of all runs; NaN if they recorded no time."""
    seconds = [run.epochs["train/seconds"].mean() for run in setting.runs if run.epochs is not None]
    return float(np.mean(seconds)) / 60 if seconds else float("nan")


def mean_epochs(setting: Setting) -> pd.DataFrame:
    """Means over a setting's seeds of the curves after each epoch; ``epoch`` counts from 1."""
    all_epochs = pd.concat([run.epochs for run in setting.runs if run.epochs is not None])
    means = all_epochs.groupby("epoch")[list(METRICS["figures34"])].mean().reset_index()
    return means.assign(epoch=means["epoch"] + 1)


def convergence(settings: Sequence[Setting]) -> Figure:
    """Loss and F1 by epoch of all methods on one corpus, means over seeds; numbers of the paper as crosses."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    published = read_published("duplicates", "figures34")
    published = published[published["corpus"] == settings[0].corpus] if is_published(settings[0]) else published[:0]
    for axis, (title, metric) in zip(axes, PANELS.items(), strict=True):
        for number, setting in enumerate(settings):
            means = mean_epochs(setting)
            for split, line in (("train", "-"), ("val", "--")):
                label = f"{setting.label}: {split}"
                axis.plot(
                    means["epoch"], means[f"{split}/{metric}"], line, marker="o", color=colour(number), label=label
                )
        # The paper's figures print no numbers: these come from its text.
        for method, rows in published.groupby("method"):
            tone = "black" if "graph" in str(method) else "grey"
            for split, mark in (("train", "x"), ("val", "+")):
                stated = rows[rows[f"{split}/{metric}"].notna()]
                if len(stated):
                    epochs = stated["condition"].astype(int)
                    axis.plot(epochs, stated[f"{split}/{metric}"], mark, color=tone, label=f"paper, {method}: {split}")
        finish_epochs(axis, f"{title}: {settings[0].corpus}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
