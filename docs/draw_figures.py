"""Draw the figures of the manual's concepts into docs/images: python docs/draw_figures.py.

What they show is computed by the functions that the commands call, on the bundled corpus or on numbers made up with a
seed; each page says which.
"""

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch.nn.functional import normalize

from gedbd.duplicates.graph.adjacency import kernel, kernel_factor
from gedbd.evaluation.figures import DUPLICATE, GREY, OTHER
from gedbd.evaluation.pairwise import audit_leak
from gedbd.io.files import CONF_DIR
from gedbd.sampling.splits import split_corpus
from gedbd.triage.triage_model import calibration_error, fit_isotonic

IMAGES = Path(__file__).parent / "images"
WIDE = (8.0, 3.2)
BYTES_OF_FLOAT = 4


def main(folder: Path = IMAGES) -> None:
    """Draws all of them into a folder."""
    # The same numbers give the same file: ids in an SVG are drawn at random unless there is a salt.
    matplotlib.rcParams["svg.hashsalt"] = "gedbd"
    figures = {
        "ranking": ranking,
        "leakage": leakage,
        "dense_graph": dense_graph,
        "calibration": calibration,
        "flow": flow,
        "text_to_loss": text_to_loss,
    }
    folder.mkdir(exist_ok=True)
    for name, draw in figures.items():
        draw().savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def ranking() -> Figure:
    """A query of the test part, its candidates, and how groups are counted."""
    figure = Figure(figsize=WIDE)
    axis = figure.subplots()
    days = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    groups = ["A", "B", "A", "C", "D", "B", "E", "C", "F"]
    scores = [0.35, 0.8, 0.9, 0.6, 0.2, 0.85, 0.3, 0.75, 0.1]
    best = {
        group: max(score for score, other in zip(scores, groups, strict=True) if other == group) for group in groups
    }
    order = sorted(best, key=lambda group: -best[group])
    for day, group, score in zip(days, groups, scores, strict=True):
        relevant = group == "C"
        axis.bar(day, score, color=DUPLICATE if relevant else GREY, width=0.6)
        axis.text(day, score + 0.02, group, ha="center", fontweight="bold" if relevant else "normal")
    axis.axvline(8.6, color="black", linewidth=1)
    axis.text(8.7, 0.98, "query,\na duplicate of C", va="top", color=DUPLICATE)
    axis.bar([9.6, 10.6], [0.45, 0.7], color="none", edgecolor=GREY, linestyle=":", width=0.6)
    axis.text(10.1, 0.02, "later reports:\nno candidates", ha="center", va="bottom", color=GREY, fontsize=8)
    ranks = ", ".join(f"{rank}. {group}" for rank, group in enumerate(order, start=1))
    axis.set_title(
        f"Ranks count groups, by the best member of each: {ranks}. The rank is {order.index('C') + 1}", fontsize=9
    )
    axis.set(xlabel="reports in the order of their creation", ylabel="score", xticks=[], ylim=(0, 1.08))
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def leakage() -> Figure:
    """What closure of training pairs finds on the demo corpus, by split."""
    names = ("pair", "group", "time")
    audits = {name: _audit(name) for name in names}
    figure = Figure(figsize=WIDE)
    axis = figure.subplots()
    place = np.arange(len(names))
    for shift, key, label, colour in (
        (-0.2, "closure_f1", "chains of training pairs, no text read", OTHER),
        (0.2, "always_duplicate_f1", '"always duplicate"', GREY),
    ):
        values = [audits[name][key] for name in names]
        bars = axis.bar(place + shift, values, 0.38, color=colour, label=label)
        axis.bar_label(bars, fmt="{:.2f}", fontsize=8)
    axis.set(title="demo: F1 on test pairs without reading a word", xticks=place, ylim=(0, 1), ylabel="F1")
    axis.set_xticklabels([f"split={name}" for name in names])
    axis.legend(frameon=False, loc="upper right")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _audit(split: str) -> Mapping[str, float]:
    """The leak audit of the demo corpus by the default pairs."""
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("baseline", overrides=["name=closure", f"split={split}"])
    corpus = instantiate(cfg.dataset)
    splitter = instantiate(cfg.split)
    pairs, _ = instantiate(cfg.pairs).sample(corpus, splitter)
    return audit_leak(pairs, split_corpus(splitter, corpus), corpus.group)


def dense_graph() -> Figure:
    """Memory of the matrix and of its factor, and how closely the factor gives the matrix's products."""
    figure = Figure(figsize=WIDE)
    memory, error = figure.subplots(1, 2)
    num_reports = np.array([1_000, 10_000, 100_000, 1_000_000])
    memory.loglog(num_reports, BYTES_OF_FLOAT * num_reports**2 / 1e9, "o-", color=OTHER, label="N x N matrix")
    for power, style in ((1, "o-"), (2, "s--")):
        columns = kernel_factor(torch.ones(1, 10), power).shape[1]
        label = f"factor, p = {power} ({columns} columns)"
        memory.loglog(num_reports, BYTES_OF_FLOAT * num_reports * columns / 1e9, style, color=DUPLICATE, label=label)
    memory.set(title="Memory, float32, d = 10", xlabel="reports N", ylabel="GB")
    memory.legend(frameon=False, fontsize=8)
    vectors = normalize(torch.randn(2000, 10, generator=torch.Generator().manual_seed(0)), dim=1)
    x = torch.randn(2000, 16, generator=torch.Generator().manual_seed(1))
    for power, colour in ((1, DUPLICATE), (2, OTHER)):
        factor = kernel_factor(vectors, power)
        exact = kernel(vectors @ vectors.T, power) @ x
        difference = (factor @ (factor.T @ x) - exact).abs() / exact.abs().max()
        bins = np.logspace(-11, -5, 49)
        error.hist(
            difference.flatten().clamp(min=1e-11).numpy(), bins=bins, alpha=0.6, color=colour, label=f"p = {power}"
        )
    error.set(xscale="log", title="Difference to the matrix's product", xlabel="share of the largest value", yticks=[])
    error.legend(frameon=False, fontsize=8)
    for axis in (memory, error):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def flow() -> Figure:
    """The folders of the package: shared ones below, one a system on them, and what people use on top."""
    levels = (
        (("io", "files, HTTP"), ("text", "words, tokens"), ("corpora", "reports, splits"), ("encoders", "vectors")),
        (("sampling", "pairs, batches"), ("losses", "what is minimised"), ("retrieval", "ranks, scores")),
        (("evaluation", "metrics, figures"), ("configuration", "options"), ("experiments", "runs, sweeps, reports")),
        (("duplicates", "graph, contrastive"), ("questions", "tags, confirmation"), ("localization", "changes, files")),
        (("triage", "index, backtest"), ("service", "page, webhook, MCP"), ("api, commands", "Python, gedbd ...")),
    )
    figure = Figure(figsize=(8.0, 4.2))
    axis = figure.subplots()
    for y, level in enumerate(levels):
        width = 8 / len(level)
        for number, (name, holds) in enumerate(level):
            x = number * width
            is_system = y == 3
            face = "#eef4fb" if is_system else "white"
            axis.add_patch(Rectangle((x + 0.06, y + 0.08), width - 0.12, 0.8, facecolor=face, edgecolor=DUPLICATE))
            axis.text(x + width / 2, y + 0.62, name, ha="center", va="center", fontsize=10, fontweight="bold")
            axis.text(x + width / 2, y + 0.3, holds, ha="center", va="center", fontsize=8)
    for y, name in ((0.5, "shared"), (3.5, "one folder\na system"), (4.5, "for people")):
        axis.text(8.1, y, name, ha="left", va="center", fontsize=8, color=GREY)
    axis.annotate("", (-0.12, 0.1), (-0.12, 4.9), arrowprops={"arrowstyle": "->", "color": GREY})
    axis.text(-0.3, 2.5, "imports point down", ha="center", va="center", rotation=90, fontsize=8, color=GREY)
    axis.set(xlim=(-0.5, 9), ylim=(0, 5))
    axis.axis("off")
    figure.tight_layout()
    return figure


def text_to_loss() -> Figure:
    """What a batch of the duplicate detector becomes, with the shape of each array beside its arrow."""
    boxes = (  # centre, width, text
        (1.4, 6.6, 2.5, "texts of a batch\nBugReports.train_dataloader"),
        (1.4, 5.0, 2.5, "encoder, pooling\nTextEncoder.pool"),
        (1.4, 3.4, 2.5, "projection\nTextEncoder.projection"),
        (6.6, 6.6, 2.9, "titles of all reports, encoded\nbuild_graph, the encoder is frozen"),
        (6.6, 5.53, 2.9, "PCA\nreduce_titles"),
        (6.6, 4.47, 2.9, "edge rule\nDenseAdjacency or SparseAdjacency"),
        (6.6, 3.4, 2.9, "two GCN layers\nGraphBranch"),
        (4.0, 1.8, 3.2, "fusion by lambda\nWeightedSum or Concat"),
        (4.0, 0.4, 3.2, "cosine of each pair, loss\nCosineEmbeddingLoss"),
        (0.9, 0.4, 1.7, "pairs of the batch\nBatch.labels"),
    )
    arrows = (  # from, to, shape, where it is written
        ((1.4, 6.25), (1.4, 5.35), "token ids (U, L)", (1.5, 5.8)),
        ((1.4, 4.65), (1.4, 3.75), "pooled (U, H)", (1.5, 4.2)),
        ((6.6, 6.25), (6.6, 5.88), "(N, H)", (6.7, 6.07)),
        ((6.6, 5.18), (6.6, 4.82), "(N, d)", (6.7, 5.0)),
        ((6.6, 4.12), (6.6, 3.75), "(N, r) twice, or edges (2, E)", (6.7, 3.94)),
        ((2.65, 3.4), (5.15, 3.4), "z_text (U, D) replaces U of\nthe N node rows (N, D)", (2.85, 3.75)),
        ((1.4, 3.05), (2.9, 2.15), "z_text (U, D)", (0.85, 2.5)),
        ((6.6, 3.05), (5.1, 2.15), "z_graph (U, D)", (6.0, 2.5)),
        ((4.0, 1.45), (4.0, 0.75), "z (U, D), rows of length 1", (4.1, 1.1)),
        ((1.75, 0.4), (2.4, 0.4), "(2, P), labels (P,)", (0.9, 0.9)),
        ((5.6, 0.4), (6.5, 0.4), "loss ()", (6.6, 0.4)),
    )
    figure = Figure(figsize=(8.0, 6.0))
    axis = figure.subplots()
    for x, y, width, text in boxes:
        what, where = text.split("\n")
        axis.add_patch(Rectangle((x - width / 2, y - 0.35), width, 0.7, facecolor="#eef4fb", edgecolor=DUPLICATE))
        axis.text(x, y + 0.13, what, ha="center", va="center", fontsize=9, fontweight="bold")
        axis.text(x, y - 0.16, where, ha="center", va="center", fontsize=8)
    for start, end, shape, place in arrows:
        axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": GREY})
        axis.text(*place, shape, va="center", fontsize=8.5)
    axis.set(xlim=(-0.1, 8.4), ylim=(-0.1, 7.1))
    axis.axis("off")
    figure.tight_layout()
    return figure


def calibration() -> Figure:
    """Made-up outputs of an overconfident model, before and after isotonic regression."""
    rng = np.random.default_rng(0)
    chance = rng.beta(1, 4, 6000)
    right = rng.random(6000) < chance
    outputs = np.clip(chance**0.5 + rng.normal(0, 0.05, 6000), 0, 0.999)
    half = 3000
    knots, probabilities = fit_isotonic(outputs[:half], right[:half])
    calibrated = np.interp(outputs[half:], knots, probabilities)
    figure = Figure(figsize=(4.4, 4.0))
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for values, name, colour in ((outputs[half:], "before", OTHER), (calibrated, "after", DUPLICATE)):
        error = calibration_error(values, right[half:])
        bins = np.minimum((values * 10).astype(int), 9)
        filled = [number for number in range(10) if (bins == number).sum() >= 20]
        mean = [values[bins == number].mean() for number in filled]
        observed = [right[half:][bins == number].mean() for number in filled]
        axis.plot(mean, observed, "o-", color=colour, label=f"{name}: error {error:.3f}")
    axis.set(title="Calibration, made-up outputs", xlabel="probability that was given", ylabel="share that was right")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
