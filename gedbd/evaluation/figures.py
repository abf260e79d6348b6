"""Figures of a run: each function takes tables or arrays and returns a matplotlib figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import ConfusionMatrixDisplay, precision_recall_curve
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from gedbd.evaluation.display_names import ALWAYS_DUPLICATE, display_name
from gedbd.evaluation.figure_files import DUPLICATE, OTHER, colour, line_style

MAX_GROUPS = 24
MAX_MEMBERS = 12  # of each group
MAX_SINGLETONS = 60
MIN_DISTINCT = 10  # vectors; fewer show nothing
SIZE = (6.4, 4.4)
WIDE = (8.0, 4.6)
LONGEST_IN_TWO_COLUMNS = 45  # characters of a legend's entry
LONGEST_ENTRY = 100  # characters that fit beside the colour in a single column
LEGEND: dict[str, Any] = {"loc": "best", "framealpha": 0.85, "edgecolor": "none"}  # pale where it must cover a line
# Fixed margins, with space for the subject: matplotlib's layout algorithms draw every figure twice to find them.
MARGINS = {"left": 0.11, "right": 0.97, "bottom": 0.12, "top": 0.875}


def training_curves(runs: Sequence[pd.DataFrame]) -> Figure:
    """Loss and F1 of training and validation by epoch, side by side (the paper's Figures 3 and 4); one line a run."""
    figure = Figure(figsize=(9.6, 4.0))
    axes = figure.subplots(1, 2, gridspec_kw={**MARGINS, "left": 0.075, "right": 0.985, "bottom": 0.14, "wspace": 0.2})
    for axis, name, title in zip(axes, ("loss", "f1"), ("Loss", "F1"), strict=True):
        for part, tone, marker in (("train", DUPLICATE, "o"), ("val", OTHER, "s")):
            for number, epochs in enumerate(runs):
                label = part if number == 0 else None
                axis.plot(epochs["epoch"] + 1, epochs[f"{part}/{name}"], marker=marker, color=tone, label=label)
        axis.set(title=title, xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure


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
    counts = sklearn_confusion_matrix(labels, predicted, labels=[0, 1])
    colours = {"vmin": 0, "vmax": 1.4 * counts.max()}  # the darkest blues would hide the numbers
    display = ConfusionMatrixDisplay(counts)
    display.plot(
        ax=axis, cmap="Blues", values_format=",", colorbar=False, im_kw=colours, text_kw={"fontsize": fontsize}
    )


def similarity_histogram(scores: np.ndarray, labels: np.ndarray, threshold: float) -> Figure:
    """Distribution of the cosines of duplicates and of other pairs, each as shares of its own count."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    bins = list(np.linspace(min(-0.2, float(scores.min())), 1, 41))
    for label, name, tone in ((0, "not duplicate", OTHER), (1, "duplicate", DUPLICATE)):
        chosen = scores[labels == label].clip(max=1)  # in float32 the cosine of equal texts may exceed 1, the last edge
        if len(chosen):
            share = np.full(len(chosen), 1 / len(chosen))
            axis.hist(chosen, bins=bins, weights=share, alpha=0.6, color=tone, label=f"{name} ({len(chosen):,})")
    axis.axvline(threshold, color="black", linestyle="--", linewidth=1, label=f"threshold {threshold:.2f}")
    axis.set(title="Similarity of test pairs", xlabel="cosine", ylabel="share of pairs")
    axis.legend(frameon=False)
    return figure


def title_cosines(raw: np.ndarray, reduced: np.ndarray) -> Figure:
    """Distribution of the cosines of random pairs of titles, before and after PCA.

    Args:
        raw: ``(P,)`` cosines of the encoder's vectors.
        reduced: ``(P,)`` cosines of the same pairs after PCA, which give the graph's edges.
    """
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
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

    scikit-learn's ``PrecisionRecallDisplay`` forces axes of equal length.

    Args:
        scored: Scores and labels of pairs, by the name of their method.
        wide: See ``start_figure``.
    """
    figure, axis = start_figure(wide)
    for place, (name, (scores, labels)) in enumerate(scored.items()):
        precision, recall, _ = precision_recall_curve(labels, scores)
        axis.step(recall, precision, where="post", label=name, **line_options(place))
    share = float(np.mean(np.concatenate([labels for _, labels in scored.values()])))
    always = display_name(ALWAYS_DUPLICATE)  # its precision is the share of duplicates, whatever the recall
    axis.axhline(share, color="black", linestyle=":", linewidth=1, label=always)
    axis.set(title="Precision and recall on pairs", xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    return finish_figure(figure, wide)


def rank_curves(queries: Mapping[str, pd.DataFrame], counted: str = "groups", wide: bool = False) -> Figure:
    """RR@k over k; the ceiling is the share of queries whose group can be found at all.

    Args:
        queries: Ranks of queries, by the name of their method.
        counted: What a rank counts.
        wide: See ``start_figure``.
    """
    figure, axis = start_figure(wide)
    k = np.arange(1, 101)
    for place, (name, table) in enumerate(queries.items()):
        rank = table["rank"].to_numpy()
        shares = [np.mean((rank > 0) & (rank <= top)) for top in k]
        axis.step(k, shares, where="post", label=name, **line_options(place))
    ceiling = float(np.mean([table["reachable"].mean() for table in queries.values()]))
    axis.axhline(ceiling, color="black", linestyle=":", linewidth=1, label=f"ceiling {ceiling:.3f}")
    axis.set(
        title=f"Duplicates found among the first k {counted}", xlabel="k", ylabel="RR@k", xscale="log", ylim=(0, 1.02)
    )
    axis.set_xticks([1, 5, 10, 20, 100], labels=["1", "5", "10", "20", "100"])
    return finish_figure(figure, wide)


def start_figure(wide: bool) -> tuple[Figure, Axes]:
    """A figure with one pair of axes; a wide one has space for many lines with long names."""
    figure = Figure(figsize=WIDE, layout="constrained") if wide else Figure(figsize=SIZE)
    return figure, figure.subplots(gridspec_kw=None if wide else MARGINS)


def finish_figure(figure: Figure, wide: bool) -> Figure:
    """Adds grid and legend, which is below the axes of a wide figure."""
    axis = figure.axes[0]
    axis.grid(alpha=0.25)
    if not wide:
        axis.legend(**LEGEND)
        return figure
    handles, labels = axis.get_legend_handles_labels()
    labels = cut_labels(labels)
    columns = 1 if max(map(len, labels)) > LONGEST_IN_TWO_COLUMNS else 2
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=8, ncols=columns)
    return figure


def line_options(place: int) -> dict[str, Any]:
    """Colour and kind of a line by its place."""
    return {"color": colour(place), "linestyle": line_style(place)}


def cut_labels(labels: list[str], max_length: int = LONGEST_ENTRY) -> list[str]:
    """Long labels with an ellipsis in their middle; all of them in full if two would become equal."""
    half = max_length // 2
    cut = [f"{label[:half]}…{label[-half:]}" if len(label) > max_length else label for label in labels]
    return cut if len(set(cut)) == len(set(labels)) else labels


def project_reports(
    rows: np.ndarray, vectors: np.ndarray, group: np.ndarray, tested: np.ndarray, seed: int
) -> pd.DataFrame:
    """Projects some reports by t-SNE of their cosines: the largest groups with a test report, and test singletons.

    Args:
        rows: ``(U,)`` rows of the reports that have a vector.
        vectors: ``(U, D)`` unit vectors.
        group: ``(N,)`` group of every report.
        tested: ``(N,)`` bool, the reports of the part that is shown.
        seed: Fixes the sample of singletons and the projection.

    Returns:
        ``row``, ``group`` (-1 for singletons), ``x``, ``y``; empty if fewer than ``MIN_DISTINCT`` vectors differ.
    """
    mine = pd.DataFrame({"row": rows, "place": np.arange(len(rows)), "group": group[rows], "tested": tested[rows]})
    size = mine.groupby("group")["row"].transform("size")
    touched = mine[(size > 1) & mine.groupby("group")["tested"].transform("any")]
    largest = touched["group"].value_counts(sort=True).head(MAX_GROUPS).index
    chosen = touched[touched["group"].isin(largest)].groupby("group").tail(MAX_MEMBERS)
    singletons = mine[(size == 1) & mine["tested"]].assign(group=-1)
    sampled = singletons.sample(min(MAX_SINGLETONS, len(singletons)), random_state=seed)
    shown = pd.concat([chosen, sampled], ignore_index=True)
    # Equal vectors would break the tree of points that t-SNE builds: each is projected once.
    distinct, place = np.unique(vectors[shown["place"].to_numpy()].round(5), axis=0, return_inverse=True)
    if len(distinct) < MIN_DISTINCT:
        return pd.DataFrame({"row": np.empty(0, int), "group": [], "x": [], "y": []})
    perplexity = min(15.0, (len(distinct) - 1) / 3)
    tsne = TSNE(metric="cosine", init="pca", perplexity=perplexity, max_iter=400, random_state=seed)
    shown[["x", "y"]] = tsne.fit_transform(distinct)[place]
    return shown[["row", "group", "x", "y"]]
