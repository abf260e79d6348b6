"""Draws tables and arrays with matplotlib, and saves the figures."""

import logging
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, MaxNLocator, ScalarFormatter

from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, display_name, metric_name
from gedbd.io.console import printable
from gedbd.io.files import replacing

BLUE = "#0072b2"
VERMILION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREY = "#8a8a8a"
DARK_GREY = "#4d4d4d"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, DARK_GREY)  # in the order in which they are used
MARKERS = "os^DvP"
LINES = ("-", "--", ":", "-.")  # style of the first seven lines, of the next seven, ...
DUPLICATE = BLUE
OTHER = VERMILION
DPI = 120
SUBJECT_SIZE = 8  # points
logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each table of a PDF file's fonts
SUFFIXES = (".svg", ".png")
MAX_K = 100  # of curves over ranks
MAX_GROUPS = 24
MAX_MEMBERS = 12  # of each group
MAX_SINGLETONS = 60
MIN_DISTINCT = 10  # vectors; fewer show nothing
SIZE = (6.4, 4.4)
WIDE = (8.0, 4.6)
LONGEST_IN_TWO_COLUMNS = 45  # characters of a legend's entry
LONGEST_ENTRY = 100  # characters of an entry in a single column
LEGEND: dict[str, Any] = {"loc": "best", "framealpha": 0.85, "edgecolor": "none"}
# Fixed margins, with space for the subject: matplotlib's layout algorithms draw every figure twice to find them.
MARGINS = {"left": 0.11, "right": 0.97, "bottom": 0.12, "top": 0.875}


def save_figure(figure: Figure, stem: Path, dpi: float = DPI) -> list[Path]:
    """Writes a figure as SVG and PNG and returns their paths; existing files are replaced.

    The path ``stem`` has no suffix.
    """
    files = [stem.with_name(f"{stem.name}{suffix}") for suffix in SUFFIXES]
    for file in files:
        with replacing(file) as unfinished:
            write_figure(figure, unfinished, file.suffix.removeprefix("."), stem.name, dpi)
    return files


def write_figure(figure: Figure, file: Path | IO[bytes], kind: str, salt: str, dpi: float = DPI) -> None:
    """Writes a figure as ``png``, ``svg`` or ``pdf``, without a date and without interpreting ``$`` in texts.

    ``salt`` makes the ids in an SVG file reproducible.
    """
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    _show_texts_as_they_are(figure)
    # Type 42, as publishers refuse matplotlib's default, type 3.
    with rc_context({"svg.hashsalt": salt, "pdf.fonttype": 42}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def name_subject(figure: Figure, subject: str) -> Figure:
    """Writes the subject of a figure, such as corpus and model, above it, unless it has one.

    ``MARGINS`` leave space for it.
    """
    if figure.get_label():
        return figure
    figure.set_label(subject)
    if figure.get_constrained_layout() and not figure.get_suptitle():
        figure.suptitle(subject, fontsize=SUBJECT_SIZE, color=DARK_GREY)
    else:
        figure.text(0.5, 0.99, subject, ha="center", va="top", fontsize=SUBJECT_SIZE, color=DARK_GREY)
    return figure


def _show_texts_as_they_are(figure: Figure) -> None:
    """Turns off math text, except in tick numbers, as names may contain ``$``, and removes control characters."""
    numbers: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        names = axis.get_major_formatter().format_ticks(list(axis.get_majorticklocs()))
        if not all(name.isprintable() for name in names):
            axis.set_ticks(axis.get_majorticklocs(), labels=[printable(name) for name in names])
        # get_major_ticks() creates missing ticks.
        for formatter, ticks in (
            (axis.get_major_formatter(), axis.get_major_ticks()),
            (axis.get_minor_formatter(), axis.get_minor_ticks()),
        ):
            if isinstance(formatter, ScalarFormatter | LogFormatter):
                numbers |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    for text in set(figure.findobj(Text)) - numbers:
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), keep="\n"))


def colour(index: int) -> str:
    """The colour of a line or bar by its index, repeated after seven."""
    return SERIES[index % len(SERIES)]


def training_curves(runs: Sequence[pd.DataFrame]) -> Figure:
    """Loss and F1 of training and validation by epoch, side by side (the paper's Figures 3 and 4); one line per run."""
    return epoch_curves(
        runs, {"Loss": {"train": "train/loss", "val": "val/loss"}, "F1": {"train": "train/f1", "val": "val/f1"}}
    )


def epoch_curves(runs: Sequence[pd.DataFrame], panels: Mapping[str, Mapping[str, str]]) -> Figure:
    """Draws metrics by epoch in panels; all runs have the same colours.

    Args:
        runs: Tables with one row per epoch; ``epoch`` counts from 0.
        panels: For each title, the column of each line by its label.
    """
    figure = Figure(figsize=(4.8 * len(panels), 4.0))
    margins = {**MARGINS, "left": 0.15 / len(panels), "right": 0.985, "bottom": 0.14, "wspace": 0.2}
    axes = figure.subplots(1, len(panels), squeeze=False, gridspec_kw=margins)[0]
    for axis, (title, columns) in zip(axes, panels.items(), strict=True):
        for index, (label, column) in enumerate(columns.items()):
            options = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4, "color": colour(index)}
            for number, epochs in enumerate(runs):
                axis.plot(epochs["epoch"] + 1, epochs[column], label=label if number == 0 else None, **options)
        finish_epochs(axis, title)
        axis.legend(frameon=False)
    return figure


def finish_epochs(axis: Axes, title: str) -> None:
    """Sets title and integer ticks of curves by epoch."""
    axis.set(title=title, xlabel="epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.grid(alpha=0.25)


def confusion_matrix(scores: np.ndarray, labels: np.ndarray, threshold: float) -> Figure:
    """Confusion matrix at a threshold (the paper's Figure 2)."""
    predicted = scores >= np.asarray(threshold, dtype=scores.dtype)
    figure = Figure(figsize=(4.8, 4.4))
    axis = figure.subplots(gridspec_kw=MARGINS)
    draw_confusion_matrix(axis, labels, predicted, fontsize=16)
    names = ["not duplicate", "duplicate"]
    axis.set(title=f"Test pairs at threshold {threshold:.2f}", xlabel="predicted", ylabel="true")
    axis.set(xticks=[0, 1], yticks=[0, 1], xticklabels=names)
    axis.set_yticklabels(names, rotation=90, va="center")
    return figure


def draw_confusion_matrix(axis: Axes, labels: np.ndarray, predicted: np.ndarray, fontsize: float) -> None:
    """Draws the counts of true and predicted labels, ``(P,)`` each."""
    from sklearn.metrics import ConfusionMatrixDisplay
    from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

    counts = sklearn_confusion_matrix(labels, predicted, labels=[0, 1])
    colours = {"vmin": 0, "vmax": 1.4 * counts.max()}  # the darkest blues would hide the numbers
    display = ConfusionMatrixDisplay(counts)
    display.plot(
        ax=axis, cmap="Blues", values_format=",", colorbar=False, im_kw=colours, text_kw={"fontsize": fontsize}
    )


def confusion_matrices(predicted: Mapping[str, pd.DataFrame]) -> Figure:
    """Confusion matrices side by side (the paper's Figure 2).

    ``predicted`` maps the name of each model to its pairs, with the columns ``label`` and ``predicted``.
    """
    columns = min(4, len(predicted))
    rows = -(-len(predicted) // columns)  # rounded up
    figure = Figure(figsize=(2.7 * columns, 2.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes[len(predicted) :]:
        axis.axis("off")
    for axis, (name, pairs) in zip(axes, predicted.items(), strict=False):
        draw_confusion_matrix(axis, pairs["label"].to_numpy(), pairs["predicted"].to_numpy(), fontsize=10)
        axis.set_title("\n".join(name.split(", ")), fontsize=8)
        axis.set(xticks=[0, 1], yticks=[0, 1], xticklabels=["other", "dup."], yticklabels=["other", "dup."])
        axis.set_xlabel("predicted", fontsize=8)
        axis.set_ylabel("true", fontsize=8)
    return figure


def similarity_histogram(scores: np.ndarray, labels: np.ndarray, threshold: float) -> Figure:
    """Distribution of the cosines of duplicates and of other pairs, each as shares of its own count."""
    figure, axis = start_figure()
    bins = list(np.linspace(min(-0.2, float(scores.min())), 1, 41))
    for label, name, face_colour in ((0, "not duplicate", OTHER), (1, "duplicate", DUPLICATE)):
        values = scores[labels == label].clip(max=1)  # in float32 the cosine of equal texts may exceed 1, the last edge
        if len(values):
            share = np.full(len(values), 1 / len(values))
            axis.hist(values, bins=bins, weights=share, alpha=0.6, color=face_colour, label=f"{name} ({len(values):,})")
    axis.axvline(threshold, color="black", linestyle="--", linewidth=1, label=f"threshold {threshold:.2f}")
    axis.set(title="Similarity of test pairs", xlabel="cosine", ylabel="share of pairs")
    axis.legend(frameon=False)
    return figure


def title_cosines(raw: np.ndarray, reduced: np.ndarray) -> Figure:
    """Distribution of the cosines of random pairs of titles, before and after PCA.

    Each is ``(P,)``; those after PCA give the graph's edges.
    """
    figure, axis = start_figure()
    bins = list(np.linspace(-1, 1, 81))
    for values, name, tone in ((reduced, "after PCA", DUPLICATE), (raw, "raw", OTHER)):
        share = np.full(len(values), 1 / len(values))
        label = f"{name}: median {np.median(values):.2f}, {np.mean(values > 0.95):.0%} above 0.95"
        axis.hist(values.clip(-1, 1), bins=bins, weights=share, alpha=0.6, color=tone, label=label)
    axis.set(title=f"Similarity of {len(raw):,} random pairs of titles", xlabel="cosine", ylabel="share of pairs")
    axis.set_ylim(0, 1.25 * axis.get_ylim()[1])  # the legend is above the bars
    axis.legend(frameon=False, loc="upper left")
    return figure


def precision_recall(scored: Mapping[str, tuple[np.ndarray, np.ndarray]], wide: bool = False) -> Figure:
    """Precision over recall, and the precision of calling every pair a duplicate.

    scikit-learn's ``PrecisionRecallDisplay`` forces axes of equal length. ``scored`` holds scores and labels of pairs,
    by the name of their method.
    """
    from sklearn.metrics import precision_recall_curve

    figure, axis = start_figure(wide)
    for index, (name, (scores, labels)) in enumerate(scored.items()):
        precision, recall, _ = precision_recall_curve(labels, scores)
        axis.step(recall, precision, where="post", label=name, **line_options(index))
    share = float(np.mean(np.concatenate([labels for _, labels in scored.values()])))
    always = display_name(ALWAYS_DUPLICATE)  # its precision is the share of duplicates at any recall
    axis.axhline(share, color="black", linestyle=":", linewidth=1, label=always)
    axis.set(title="Precision and recall on pairs", xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    return finish_figure(figure, wide)


def rank_curves(queries: Mapping[str, pd.DataFrame], counted: str = "groups", wide: bool = False) -> Figure:
    """RR@k over k; the ceiling is the share of queries with a relevant candidate.

    ``queries`` holds ranks by the name of their method; ``counted`` names what a rank counts.
    """
    figure, axis = start_figure(wide)
    for index, (name, table) in enumerate(queries.items()):
        draw_hits(axis, table["rank"].to_numpy(), label=name, **line_options(index))
    ceiling = float(np.mean([table["reachable"].mean() for table in queries.values()]))
    axis.axhline(ceiling, color="black", linestyle=":", linewidth=1, label=f"ceiling {ceiling:.3f}")
    finish_ranks(axis, f"Duplicates found among the first k {counted}", "RR@k")
    return finish_figure(figure, wide)


def hit_curves(ranks: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """RR@k over k, a panel for each kind of document.

    Args:
        ranks: By the panel's title and the method's name, ``(Q,)`` rank of the first relevant document, 0 for none.
    """
    figure, axes = side_by_side(len(ranks), 3.8)
    for axis, (title, methods) in zip(axes, ranks.items(), strict=True):
        for index, (name, rank) in enumerate(methods.items()):
            draw_hits(axis, rank, label=name, **line_options(index))
        finish_ranks(axis, title, "RR@k (hit@k)")
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=7, loc="upper left")
    return figure


def draw_hits(axis: Axes, rank: np.ndarray, **options: Any) -> None:
    """Draws the share of queries whose first relevant document ranks at most k, over k; rank 0 means none."""
    k = np.arange(1, MAX_K + 1)
    shares = [np.mean((rank > 0) & (rank <= top)) for top in k]
    axis.step(k, shares, where="post", **options)


def finish_ranks(axis: Axes, title: str, ylabel: str) -> None:
    """Titles and ticks of a curve over ranks."""
    axis.set(title=title, xlabel="k", ylabel=ylabel, xscale="log", ylim=(0, 1.02))
    axis.set_xticks([1, 5, 10, 20, 50, 100], labels=["1", "5", "10", "20", "50", "100"])
    axis.minorticks_off()


def draw_band(axis: Axes, x: pd.Series, table: pd.DataFrame, name: str, **options: Any) -> None:
    """Draws a column as a line, with its interval as a band if the table has the ends."""
    axis.plot(x, table[name], **options)
    if f"{name}_low" in table:
        axis.fill_between(x, table[f"{name}_low"], table[f"{name}_high"], color=options["color"], alpha=0.15)


def bars(
    tables: Mapping[str, pd.DataFrame],
    value: str,
    xlabel: str,
    name: str = "method",
    first: Sequence[str] = (),
    lines: Mapping[str, float] = types.MappingProxyType({}),
) -> Figure:
    """Horizontal bars with intervals, the first row at the top, a panel for each table.

    Args:
        tables: For each panel's title, one row per bar: ``name``, ``value`` and, for intervals, its two ends.
        value: The column with the lengths of the bars.
        xlabel: Label of the axis.
        name: The column with the names of the bars.
        first: Names in the first colour; by default all.
        lines: Position of a dashed line by the panel's title.
    """
    longest = max(map(len, tables.values()))
    figure, axes = side_by_side(len(tables), max(2.0, 1.4 + 0.24 * longest))
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        rows = table[table[value].notna()].iloc[::-1]
        tones = [DUPLICATE if not first or method in first else OTHER for method in rows[name]]
        ends = None
        if f"{value}_low" in rows:
            ends = np.stack([rows[value] - rows[f"{value}_low"], rows[f"{value}_high"] - rows[value]]).clip(0)
        labels = [display_name(method) for method in rows[name]]
        axis.barh(labels, rows[value], xerr=ends, color=tones, alpha=0.8, capsize=2)
        if title in lines:
            axis.axvline(lines[title], color=GREY, linestyle="--", linewidth=1)
        axis.set(title=title, xlabel=xlabel)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25, axis="x")
    return figure


def over_option(table: pd.DataFrame, option: str, metric: str) -> Figure:
    """A metric over the values of an option, equally spaced, as values such as 1, 3, 10 and 100 would overlap.

    Args:
        table: ``model`` (one line each), the option, and the metric with the ends of its intervals.
        option: Name of the option; its values are in the order of the table.
        metric: Name of the metric.
    """
    figure, axis = start_figure(wide=True)
    values = sorted(table[option].unique(), key=list(table[option]).index)
    for index, (model, rows) in enumerate(table.groupby("model", sort=False)):
        # Lines are shifted, so that error bars do not overlap.
        x = rows[option].map(values.index) + 0.02 * index
        ends = np.stack([rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]])
        # Rounding may make the end of an empty interval negative.
        options = {"capsize": 3, "marker": "o", "label": str(model), **line_options(index)}
        axis.errorbar(x, rows[metric], yerr=ends.clip(0), **options)
    axis.set(title=f"{metric_name(metric)} over {option}", xlabel=option, ylabel=metric_name(metric))
    axis.set_xticks(range(len(values)), labels=[str(value) for value in values])
    return finish_figure(figure, wide=True)


def tsne_projection(table: pd.DataFrame) -> Figure:
    """t-SNE projection of reports; duplicates share a colour and a marker, other reports are grey."""
    figure = Figure(figsize=(7, 5.4), layout="constrained")
    axis = figure.subplots()
    singletons = table[table["group"] < 0]
    axis.scatter(singletons["x"], singletons["y"], s=8, color="#c8c8c8")
    for index, (_, rows) in enumerate(table[table["group"] >= 0].groupby("group")):
        marker = MARKERS[index // len(SERIES) % len(MARKERS)]  # the next marker after all colours
        tone = colour(index)
        axis.scatter(rows["x"], rows["y"], s=26, color=tone, marker=marker, edgecolors="white", linewidths=0.4)
        axis.plot(rows["x"], rows["y"], color=tone, alpha=0.25, linewidth=0.8)
    axis.set(xticks=[], yticks=[], title="Reports by their vectors (t-SNE)")
    return figure


def side_by_side(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels in a row."""
    figure = Figure(figsize=(4.4 * count + 1, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def start_figure(wide: bool = False) -> tuple[Figure, Axes]:
    """A figure with one pair of axes; a wide one has space for many lines with long names."""
    figure = Figure(figsize=WIDE, layout="constrained") if wide else Figure(figsize=SIZE)
    return figure, figure.subplots(gridspec_kw=None if wide else MARGINS)


def finish_figure(figure: Figure, wide: bool = False) -> Figure:
    """Adds a grid and a legend, which is below the axes of a wide figure."""
    axis = figure.axes[0]
    axis.grid(alpha=0.25)
    handles, labels = axis.get_legend_handles_labels()
    if not wide:
        if handles:
            axis.legend(**LEGEND)
        return figure
    half = LONGEST_ENTRY // 2
    cut = [f"{label[:half]}…{label[-half:]}" if len(label) > LONGEST_ENTRY else label for label in labels]
    if len(set(cut)) == len(set(labels)):
        labels = cut
    columns = 1 if max(map(len, labels)) > LONGEST_IN_TWO_COLUMNS else 2
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=8, ncols=columns)
    return figure


def line_options(index: int) -> dict[str, Any]:
    """Colour and style of a line by its index."""
    return {"color": colour(index), "linestyle": LINES[index // len(SERIES) % len(LINES)]}


def project_reports(
    rows: np.ndarray, vectors: np.ndarray, group: np.ndarray, tested: np.ndarray, seed: int
) -> pd.DataFrame:
    """t-SNE projection, by cosine, of the largest groups with a test report and of test singletons.

    ``tested (N,)`` bool are the test reports; ``seed`` is that of the sample of singletons and of the projection.

    Returns:
        ``row``, ``group`` (-1 for singletons), ``x``, ``y``; empty if fewer than ``MIN_DISTINCT`` vectors differ.
    """
    from sklearn.manifold import TSNE

    table = pd.DataFrame({"row": rows, "position": np.arange(len(rows)), "group": group[rows], "tested": tested[rows]})
    size = table.groupby("group")["row"].transform("size")
    grouped = table[(size > 1) & table.groupby("group")["tested"].transform("any")]
    largest = grouped["group"].value_counts(sort=True).head(MAX_GROUPS).index
    members = grouped[grouped["group"].isin(largest)].groupby("group").tail(MAX_MEMBERS)
    singletons = table[(size == 1) & table["tested"]].assign(group=-1)
    sampled = singletons.sample(min(MAX_SINGLETONS, len(singletons)), random_state=seed)
    projected = pd.concat([members, sampled], ignore_index=True)
    # Equal vectors would break t-SNE's tree of points: each is projected once.
    distinct, index = np.unique(vectors[projected["position"].to_numpy()].round(5), axis=0, return_inverse=True)
    if len(distinct) < MIN_DISTINCT:
        return pd.DataFrame({"row": np.empty(0, int), "group": [], "x": [], "y": []})
    perplexity = min(15.0, (len(distinct) - 1) / 3)
    tsne = TSNE(metric="cosine", init="pca", perplexity=perplexity, max_iter=400, random_state=seed)
    projected[["x", "y"]] = tsne.fit_transform(distinct)[index]
    return projected[["row", "group", "x", "y"]]
