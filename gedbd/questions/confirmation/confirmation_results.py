"""Results of a run: the comparison of methods, the list for moderators, the tables and the page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.figures import DUPLICATE, GREY, OTHER, bars, finish_figure, start_figure
from gedbd.evaluation.significance import mann_whitney, metric_interval
from gedbd.experiments.published import paper_markdown, read_published
from gedbd.experiments.report.report_page import Section
from gedbd.experiments.run_results import with_intervals, write_run_page
from gedbd.io.files import write_text
from gedbd.io.table_files import write_parquet
from gedbd.questions.confirmation.regression_methods import (
    AnchorData,
    Prediction,
    RegressionMethod,
    interval_of,
    rmse,
    spearman,
    weighted_rmse,
    weighted_spearman,
)

MEDIAN = "median"
Metric = Callable[[np.ndarray], np.ndarray]

MAX_PENDING = 50
METHODS_TEXT = (
    "The target is log10 of the hours from the anchor, the later document of a duplicate pair, to its link. Spearman's"
    " rho compares the orders of predicted and true times. The difference in RMSE is against the median of the training"
    " times; below 0 is better. Brackets hold 95% intervals, bootstrapped over duplicate groups. The first method has"
    " the best rho on the validation split. Methods that use text, network or pair read"
    " both documents of the pair, as in the paper; those that use question alone read only what was known when the"
    " question was asked."
)
NETWORK_TEXT = (
    "The same model with the vectors of tags and without. Mann-Whitney's test compares the predicted times of the two:"
    " it tells whether one predicts longer times, not whether it ranks better (the ranks of two complete rankings are"
    " the same numbers, so that a test of these gives p = 1). The interval of the difference in rho tells whether the"
    " network ranks better."
)
PENDING_TEXT = (
    "The test anchors with the longest predicted time, for a moderator to look at first; pending.csv has all. The"
    " interval from and to holds 80% of the true times if the residuals are as on validation."
)
PUBLISHED_TEXT = (
    "The paper's Table 7 beside the same models here. The corpora and the encoder differ (askubuntu until 2021, 3,756"
    " test pairs, multi-qa-MiniLM-L6-cos-v1), so the numbers are not a replication."
)
DECILES = 10
MAX_BARS = 15
METRICS = ("rmse", "spearman")
RESULTS = ("method", "spearman", "spearman_low", "spearman_high", "rmse", "rmse_low", "rmse_high")


@dataclass(frozen=True)
class ConfirmationResult:
    """The results of a run."""

    corpus: Corpus  # the documents
    data: AnchorData  # the anchors
    predictions: Mapping[str, Prediction]  # by method id
    table: pd.DataFrame  # metrics of each method, the best on validation first, see ``compare_methods``
    network: pd.DataFrame  # methods with the tag network against those without, see ``compare_network``
    pending: pd.DataFrame  # test anchors, the longest predicted time first, see ``pending_list``

    @property
    def best(self) -> str:
        """Id of the method with the best rho on validation."""
        return str(self.table["method"][0])

    @property
    def validation(self) -> float:
        """Its rho on validation; 0 if every method predicts a constant."""
        value = float(self.table["val_spearman"][0])
        return 0.0 if np.isnan(value) else value

    @property
    def summary(self) -> str:
        """The best method against the median, in one line."""
        row = self.table.iloc[0]
        counts = f"{self.data.train.sum():,} anchors to learn from, {self.data.test.sum():,} to test on"
        rho = f"Spearman's rho {row['spearman']:.3f} [{row['spearman_low']:.3f}, {row['spearman_high']:.3f}]"
        interval = f"[{row['rmse_difference_low']:+.3f}, {row['rmse_difference_high']:+.3f}]"
        error = f"RMSE {row['rmse']:.3f}, {row['rmse_difference']:+.3f} {interval} against the median"
        return f"{self.corpus.name}: {counts}. {self.best}, the best on validation: {rho}, {error}."


def measure(
    corpus: Corpus, data: AnchorData, methods: Mapping[str, RegressionMethod], predictions: Mapping[str, Prediction]
) -> ConfirmationResult:
    """Compares the methods on the test anchors."""
    table = compare_methods(predictions, methods, data)
    best = predictions[str(table["method"][0])]
    pending = pending_list(corpus, data, best)
    return ConfirmationResult(corpus, data, predictions, table, compare_network(predictions, data), pending)


def pending_list(corpus: Corpus, data: AnchorData, predicted: Prediction) -> pd.DataFrame:
    """The test anchors as a moderator would work through them, those with the longest predicted time first.

    Returns:
        ``id``, ``title``, ``url``, ``hours`` (predicted), ``from`` and ``to`` (its 80% interval, from the residuals on
        validation), and ``actual_hours``.
    """
    anchors = data.anchors[data.test].reset_index(drop=True)
    below, above = interval_of(data.y[data.val] - predicted.val)
    order = np.argsort(-predicted.test, kind="stable")
    reports = corpus.reports.iloc[anchors["anchor"].to_numpy()[order]]
    hours = predicted.test[order]
    return pd.DataFrame(
        {
            "id": reports["id"].to_numpy(),
            "title": reports["title"].to_numpy(),
            "url": reports["url"].to_numpy(),
            "hours": (10**hours).round(2),
            "from": (10 ** (hours + below)).round(2),
            "to": (10 ** (hours + above)).round(2),
            "actual_hours": anchors["hours"].to_numpy()[order].round(2),
        }
    )


def compare_methods(
    predictions: Mapping[str, Prediction], methods: Mapping[str, RegressionMethod], data: AnchorData
) -> pd.DataFrame:
    """All methods on the same test anchors, the one with the best validation rho first.

    Returns:
        One row per method: ``method``, ``features``, ``spearman`` and ``rmse`` with the ends of their 95% intervals,
        ``rmse_difference`` (RMSE less that of the median) with its interval, ``val_spearman`` and ``val_rmse``.
        Intervals are bootstrapped over duplicate groups.
    """
    true = data.y[data.test]
    group = data.anchors["group"].to_numpy()[data.test]
    median = predictions[MEDIAN].test
    rows = []
    for name, predicted in predictions.items():
        row: dict[str, Any] = {"method": name, "features": " + ".join(methods[name].features) or "none"}
        rho = partial(weighted_spearman, predicted.test, true)
        error = partial(weighted_rmse, predicted.test, true)
        row |= _with_interval("spearman", rho, group)
        row |= _with_interval("rmse", error, group)
        row |= _with_interval("rmse_difference", _difference(error, partial(weighted_rmse, median, true)), group)
        row["val_spearman"] = spearman(predicted.val, data.y[data.val])
        row["val_rmse"] = rmse(predicted.val, data.y[data.val])
        rows.append(row)
    return pd.DataFrame(rows).sort_values("val_spearman", ascending=False, kind="stable", ignore_index=True)


def compare_network(predictions: Mapping[str, Prediction], data: AnchorData) -> pd.DataFrame:
    """The methods with the tag network against those without it, ``text_network_NAME`` against ``text_NAME``.

    The paper does not say what its Mann-Whitney U test compares. The ranks of two complete rankings are the same
    numbers, so that their test would always give p = 1. Here it compares predicted times: p tells whether one
    method tends to predict longer times, not whether it ranks better. The interval of the difference in rho tells
    this, by a paired bootstrap over duplicate groups.
    """
    true = data.y[data.test]
    group = data.anchors["group"].to_numpy()[data.test]
    rows = []
    for name in predictions:
        with_network = name.replace("text_", "text_network_", 1)
        if name == with_network or name.startswith("text_network_") or with_network not in predictions:
            continue
        first = predictions[with_network].test
        second = predictions[name].test
        row: dict[str, Any] = {"method": with_network, "against": name}
        difference = _difference(partial(weighted_spearman, first, true), partial(weighted_spearman, second, true))
        row |= _with_interval("spearman_difference", difference, group)
        rows.append(row | {"mann_whitney_p": mann_whitney(first, second)})
    return pd.DataFrame(rows)


def _with_interval(name: str, metric: Metric, group: np.ndarray) -> dict[str, float]:
    """A metric of all anchors and the ends of its interval."""
    low, high = metric_interval(metric, group)
    return {name: float(metric(np.ones((1, len(group))))[0]), f"{name}_low": low, f"{name}_high": high}


def _difference(first: Metric, second: Metric) -> Metric:
    return lambda weight: first(weight) - second(weight)


def write_result(
    folder: Path, result: ConfirmationResult, published: bool, loggers: list[Logger], console: Console
) -> None:
    """Writes, prints and logs the results of a run.

    Args:
        folder: The run folder.
        result: The results.
        published: Write the paper's Table 7 beside the measured numbers, ``table7.csv`` and ``table7.md``.
        loggers: Loggers of the run.
        console: Console to print the tables to.
    """
    name = result.corpus.name
    tables = _tables(result)
    # To fit 80 columns; the page and confirmation.csv have all.
    methods = result.table.drop(columns=["features", "rmse_low", "rmse_high", "val_spearman", "val_rmse"])
    methods = methods.rename(columns=lambda name: name.replace("rmse_difference", "rmse_less_median"))
    title = f"{name}, {result.data.test.sum():,} test anchors: log10 hours until confirmation"
    printed = {title: with_intervals(methods)}
    if len(result.network):
        printed["with the tag network and without"] = with_intervals(result.network)
    if published:
        printed["beside the paper's Table 7"] = tables["table7"] = beside_published(result.table)
        head = f"{name}: the paper's numbers are of askubuntu, 3,756 test pairs"
        write_text(folder / "table7.md", paper_markdown(head, [PUBLISHED_TEXT], [tables["table7"]]))
    anchors = result.data.anchors[result.data.test]
    ids = result.corpus.reports["id"].iloc[anchors["anchor"]].to_numpy()
    predicted = {name: prediction.test for name, prediction in result.predictions.items()}
    table = pd.DataFrame({"id": ids, "target": anchors["target"].to_numpy()} | predicted)
    write_parquet(folder / "confirmation.parquet", table)
    best = result.table.iloc[0].drop(["method", "features"])
    metrics = {f"test/{metric}": float(value) for metric, value in best.items()}
    page = sections(result, tables)
    write_run_page(folder, "Confirmation time", name, result.summary, tables, printed, page, loggers, console, metrics)


def _tables(result: ConfirmationResult) -> dict[str, pd.DataFrame]:
    """The tables that hold rows, by name."""
    predicted = result.predictions[result.best].test
    tables = {
        "results": result.table[list(RESULTS)],
        "confirmation": result.table,
        "network": result.network,
        "pending": result.pending,
        "calibration": decile_table(predicted, result.data.y[result.data.test]),
    }
    for name, prediction in result.predictions.items():
        if prediction.importance is not None:
            tables[f"importance_{name}"] = prediction.importance
    return {name: table for name, table in tables.items() if len(table)}


def sections(result: ConfirmationResult, tables: Mapping[str, pd.DataFrame]) -> list[Section]:
    """The non-empty sections of the page."""
    predicted = result.predictions[result.best].test
    true = result.data.y[result.data.test]
    pending = result.pending.head(MAX_PENDING).drop(columns="url")
    importances = {name: table for name, table in tables.items() if name.startswith("importance_")}
    panel = "Rank correlation on test"
    rho = bars({panel: result.table}, "spearman", "Spearman's rho", lines={panel: 0})
    by_decile = "Mean and median of the true times by decile of the predicted ones"
    times = [
        ("predicted_against_true", "Predicted against true time", predicted_against_true(predicted, true)),
        ("calibration", by_decile, calibration(tables["calibration"])),
    ]
    falls = []
    for name, table in importances.items():
        panels = {"Importance of features on validation": table.head(MAX_BARS)}
        figure = bars(panels, "importance", "fall of Spearman's rho", name="feature")
        falls.append((name, name.replace("_", " "), figure))
    all_sections = [
        Section("Methods", METHODS_TEXT, [result.table], [("rho_by_method", "Spearman's rho of each method", rho)]),
        Section("Text and tag network", NETWORK_TEXT, [result.network]),
        Section("Comparison with the paper", PUBLISHED_TEXT, [tables.get("table7", pd.DataFrame())]),
        Section(
            "Predicted and true times",
            f"The method {result.best.replace('_', ' ')} on the test anchors, in log10 of the hours.",
            [tables["calibration"]],
            times,
        ),
        Section(
            "Importance of features",
            "How much rho on validation falls when the values of a feature are shuffled.",
            [],
            falls,
        ),
        Section("Longest waits first", PENDING_TEXT, [with_urls(pending, result.corpus.reports, ("id",))]),
    ]
    return [section for section in all_sections if section.figures or any(len(table) for table in section.tables)]


def true_over_predicted(predicted: pd.Series | np.ndarray, title: str) -> tuple[Figure, Axes]:
    """A figure with the line on which predicted and true log10 hours are equal."""
    figure, axis = start_figure()
    ends = [float(predicted.min()), float(predicted.max())]
    axis.plot(ends, ends, color=GREY, linestyle="--", linewidth=1, label="equal")
    axis.set(title=title, xlabel="predicted log10 hours", ylabel="true log10 hours")
    return figure, axis


def predicted_against_true(predicted: np.ndarray, true: np.ndarray) -> Figure:
    """A point for each test anchor, in log10 of the hours."""
    figure, axis = true_over_predicted(predicted, "Test anchors")
    axis.scatter(predicted, true, s=8, alpha=0.4, color=DUPLICATE)
    return finish_figure(figure)


def decile_table(predicted: np.ndarray, true: np.ndarray) -> pd.DataFrame:
    """Anchors by decile of the predicted time: their number, and means and the median of log10 hours."""
    order = np.argsort(predicted, kind="stable")
    rows = []
    for number, chosen in enumerate(np.array_split(order, min(DECILES, len(order))), start=1):
        means = {"predicted": float(predicted[chosen].mean()), "true": float(true[chosen].mean())}
        rows.append({"decile": number, "anchors": len(chosen), **means, "true_median": float(np.median(true[chosen]))})
    return pd.DataFrame(rows)


def calibration(deciles: pd.DataFrame) -> Figure:
    """Mean true against mean predicted log10 hours, a point for each decile of the predictions."""
    figure, axis = true_over_predicted(deciles["predicted"], "Calibration by decile")
    axis.plot(deciles["predicted"], deciles["true"], marker="o", color=DUPLICATE, label="mean")
    axis.plot(deciles["predicted"], deciles["true_median"], marker="s", color=OTHER, label="median")
    return finish_figure(figure)


def beside_published(table: pd.DataFrame) -> pd.DataFrame:
    """Published and measured RMSE and rho of the paper's methods, in the paper's order, then of the other methods.

    Returns:
        ``method``, ``paper_rmse``, ``rmse``, ``paper_spearman`` and ``spearman``; NaN where there is no number.
    """
    published = read_published("questions", "table7").set_index("method")
    others = [name for name in table["method"] if name not in published.index]
    names = [*published.index, *others]
    measured = table.set_index("method").reindex(names)
    columns: dict[str, object] = {"method": names}
    for metric in METRICS:
        columns[f"paper_{metric}"] = published[metric].reindex(names).to_numpy()
        columns[metric] = measured[metric].to_numpy()
    return pd.DataFrame(columns)
