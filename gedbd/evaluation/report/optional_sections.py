"""Sections of a report that only some runs have: on labels, texts, training, test years, swept options, and figures."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import FROZEN, TEXT, TEXT_GRAPH, metric_name
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.counted_options import setting_key
from gedbd.evaluation.report.run_settings import Setting, query_metrics, ranked_protocols
from gedbd.evaluation.report.section import MAX_DRAWN, Section, first_of, pick, with_models
from gedbd.evaluation.run_comparison import compare_runs
from gedbd.retrieval.protocol_words import EARLIER, TEST_POOL

CONFIGURATIONS_TEXT = (
    "Reports as text of their fields, with and without captions of their screenshots, encoded without and with"
    " fine-tuning. RR@10 and MRR are among all earlier reports; those of the pool, and MAP@10, are among the reports of"
    " the test part only, as in many papers."
)
TRAINING = ("frozen", "fine-tuned", "fine-tuned, graph")
CONFIGURATION_METRICS = {EARLIER: ("rr@10", "mrr"), TEST_POOL: ("rr@10", "mrr", "map@10")}
# The corpus ends with the year, so its contents differ between the years too.
OF_THE_YEAR = ("split.year", "dataset.contents")
WALK_FORWARD_TEXT = (
    "Each method is trained on the years before each test year, and its queries of all years are pooled: a query is in"
    " one year only. Intervals (95%) are bootstrapped over duplicate groups. The second table has the years one by one."
)
METRICS = ("rr@10", "mrr")
SCARCITY_TEXT = (
    "Results when only a share of the training part's duplicate groups is known; all reports stay in the corpus."
    " The second table has the differences at the same share, query by query over the same seeds: their intervals are"
    " narrower than those of the values. P values are of Wilcoxon's test."
)
SCARCITY_METRICS = {
    f"{metric}{end}": f"{metric_name(metric)}{end}" for metric in METRICS for end in ("", "_low", "_high")
}
SWEPT = ("fusion.lambda_text", "loss.margin", "graph.pca_dim", "encoder.dim", "trainer.max_epochs")
REPEATED_BY = {"encoder.dim": "fusion.dim"}  # an option that takes its value from a swept one
SENSITIVITY_METRICS = ("f1", "rr@10")
SENSITIVITY_TEXT = (
    "How results depend on swept options. The settings of a line or grid differ in nothing else; values are means over"
    " seeds, error bars one standard deviation to either side."
)


def scarcity(corpus: str, settings: list[Setting]) -> Section | None:
    """Values and differences over the share of known groups, for settings that were run at two shares; else None."""
    kinds: dict[str, dict[float, Setting]] = {}
    for setting in settings:
        if not setting.runs[0].is_baseline and setting.rank_metrics(setting.methods[0]) is not None:
            kind = setting.label_without("labels.fraction")
            kinds.setdefault(kind, {})[float(setting.options["labels.fraction"])] = setting
    kinds = {kind: mine for kind, mine in kinds.items() if len(mine) > 1}
    if not kinds:
        return None
    found = [(kind, fraction, setting) for kind, mine in kinds.items() for fraction, setting in mine.items()]
    table = pd.DataFrame([_value(*one) for one in found])
    figures = [
        (
            f"scarcity_{metric}_{corpus}",
            f"{metric_name(metric)} over the share",
            name_subject(charts.scarcity_curve(table, metric), corpus),
        )
        for metric in METRICS
    ]
    first, *others = kinds
    differences = []
    for kind in others:
        for fraction in sorted(kinds[kind].keys() & kinds[first].keys()):
            setting = kinds[kind][fraction]
            base = kinds[first][fraction]
            if setting.seeds == base.seeds and setting.same_test(base):
                differences.append(_difference(kind, first, fraction, setting, base))
    shown = table.sort_values(["fraction", "kind"]).rename(columns=SCARCITY_METRICS)
    tables = [shown, pd.DataFrame(differences)] if differences else [shown]
    return Section(f"Label scarcity: {corpus}", SCARCITY_TEXT, tables, figures)


def _value(kind: str, fraction: float, setting: Setting) -> dict[str, object]:
    values = setting.rank_metrics(setting.methods[0]) or {}
    return {"fraction": fraction, "kind": kind, "seeds": len(setting.runs), **pick(values, SCARCITY_METRICS)}


def _difference(kind: str, base: str, fraction: float, setting: Setting, against: Setting) -> dict[str, object]:
    table = compare_runs(setting.runs, against.runs).set_index("metric")
    row: dict[str, object] = {"fraction": fraction, "difference": f"{kind} less {base}", "seeds": len(setting.runs)}
    for metric in METRICS:
        found = table.loc[metric]
        name = metric_name(metric)
        row |= {name: found["difference"], f"{name}_low": found["difference_low"]}
        row |= {f"{name}_high": found["difference_high"], f"p of {name}": found["p_value"]}
    return row


def configurations(corpus: str, settings: list[Setting]) -> Section | None:
    """A row for each combination of text and training; None if no setting has a field template."""
    with_fields = [setting for setting in settings if "text.captions" in setting.options]
    rows = [_configuration_row(setting, setting.methods[0]) for setting in with_fields if _has_encoder(setting)]
    # The frozen encoder is scored by every training too: one row for each text suffices.
    known = {row["screenshots"] for row in rows if row["training"] == "frozen"}
    for setting in with_fields:
        if setting.runs[0].is_baseline or FROZEN not in setting.methods:
            continue
        row = _configuration_row(setting, FROZEN)
        if row["screenshots"] not in known:
            known.add(row["screenshots"])
            rows.append(row)
    if not any("rr@10" in row for row in rows):
        return None
    rows.sort(key=lambda row: (row["screenshots"], TRAINING.index(row["training"])))
    return Section(
        f"Text, screenshots, training: {corpus}", CONFIGURATIONS_TEXT, [with_models(rows, ("screenshots", "training"))]
    )


def _has_encoder(setting: Setting) -> bool:
    """Whether an encoder gives the scores."""
    return not setting.runs[0].is_baseline or setting.runs[0].config.name == "frozen"


def _configuration_row(setting: Setting, method: str) -> dict[str, Any]:
    run = setting.runs[0]
    # The baseline "frozen" also scores with an encoder that another run has trained.
    trained = bool(run.config.run) if run.is_baseline else method != FROZEN
    graph = method == TEXT_GRAPH
    row: dict[str, Any] = {
        "model": setting.name_of(method),
        "screenshots": "no" if setting.options["text.captions"] is None else "yes",
        "training": TRAINING[trained + (trained and graph)],  # 0 frozen, 1 fine-tuned, 2 fine-tuned with a graph
        "seeds": len(setting.runs) if trained else 1,
    }
    for protocol, names in CONFIGURATION_METRICS.items():
        values = setting.rank_metrics(method, protocol) or {}
        names = tuple(f"{name}{end}" for name in names for end in ("", "_low", "_high"))
        found = pick(values, names)
        row |= {f"pool {name}" if protocol == TEST_POOL else name: value for name, value in found.items()}
    return row


def task_figures(settings: list[Setting]) -> list[Section]:
    """A section for each name of such a figure, such as ``tag_network``, with the first runs' figures.

    A figure that is the same in several settings, as that of their corpus, is shown once.
    """
    names = dict.fromkeys(name for setting in settings for name in setting.runs[0].captions)
    return [_section(name, [setting for setting in settings if name in setting.runs[0].captions]) for name in names]


def _section(name: str, settings: list[Setting]) -> Section:
    by_content: dict[bytes, Setting] = {}
    for setting in settings:
        by_content.setdefault(setting.runs[0].figure_file(name).read_bytes(), setting)
    drawn = list(by_content.values())[:MAX_DRAWN]
    figures = []
    for number, setting in enumerate(drawn):
        run = setting.runs[0]
        alone = [other.corpus for other in drawn].count(setting.corpus) == 1
        whose = setting.corpus if alone else f"{setting.label}, {setting.corpus}"
        figures.append((f"{name}_{number}", f"{whose}: {run.captions[name]}", run.figure_file(name)))
    more = len(by_content) - len(drawn)
    text = f"Figures show the first {MAX_DRAWN} of {len(by_content)} settings." if more else ""
    return Section(name.replace("_", " ").capitalize(), text, [], figures)


def training(settings: list[Setting]) -> Section | None:
    """Minutes of an epoch, absolute and relative to a base setting of the same corpus; None without any training.

    The base setting of a corpus is its first one of text alone, or, without any, its first one.
    """
    if not settings:
        return None
    bases: dict[str, Setting] = {}
    for setting in sorted(settings, key=lambda setting: setting.methods[0] != TEXT):
        if np.isfinite(minutes_per_epoch(setting)):
            bases.setdefault(setting.corpus, setting)
    rows = [_training_row(setting, bases.get(setting.corpus)) for setting in settings]
    relative = "; ".join(f"in {corpus} to {base.label}" for corpus, base in bases.items())
    shown, notice = first_of([setting for setting in settings if any(run.epochs is not None for run in setting.runs)])
    text = f"Time of an epoch, relative (the paper's Table 4) {relative}. " if bases else ""
    figures = [
        (
            f"training_{number}",
            f"Loss and F1 by epoch: {setting.label}, {setting.corpus}",
            name_subject(charts.training_curves(setting), f"{setting.corpus}: {setting.label}"),
        )
        for number, setting in enumerate(shown)
    ]
    return Section(
        "Training", f"{text}Loss and F1 by epoch (its Figures 3 and 4).{notice}", [pd.DataFrame(rows)], figures
    )


def minutes_per_epoch(setting: Setting) -> float:
    """Mean over the epochs of all runs; NaN if they recorded no time."""
    tables = [run.epochs for run in setting.runs]
    seconds = [table["train/seconds"].mean() for table in tables if table is not None]
    return float(np.mean(seconds)) / 60 if seconds else float("nan")


def _training_row(setting: Setting, base: Setting | None) -> dict[str, object]:
    minutes = minutes_per_epoch(setting)
    relative = minutes / minutes_per_epoch(base) if base is not None else float("nan")
    return {"model": setting.label, "corpus": setting.corpus, "minutes per epoch": minutes, "relative": relative}


def walk_forward(corpus: str, settings: list[Setting]) -> Section | None:
    """Pooled metrics of each method, and those of each year; None if no method was run for two years."""
    methods = _by_method(settings)
    if not methods:
        return None
    tables = []
    figures: list[tuple[str, str, Figure]] = []
    protocols = ranked_protocols(setting for years in methods.values() for setting in years.values())
    for protocol in protocols:
        found = {name: ranks for name, years in methods.items() if len(ranks := _ranks(years, protocol))}
        if not found:
            continue
        heading = {} if len(protocols) == 1 else {"ranked": protocol.replace("_", " ")}
        tables.append(pd.DataFrame([_pooled(name, ranks) | heading for name, ranks in found.items()]))
        by_year = pd.DataFrame([row | heading for name, ranks in found.items() for row in _by_year(name, ranks)])
        tables.append(by_year)
        figures += _figures(by_year, list(found)[:MAX_DRAWN], protocol, corpus)
    return Section(f"Walk-forward by year: {corpus}", WALK_FORWARD_TEXT, tables, figures) if tables else None


def _by_method(settings: list[Setting]) -> dict[str, dict[int, Setting]]:
    """The settings of each method by year, in the order of the years; methods with one year are left out."""
    kinds: dict[Any, dict[int, Setting]] = {}
    for setting in settings:
        year = setting.runs[0].year
        if year is not None:
            rest = {name: value for name, value in setting.counted.items() if name not in OF_THE_YEAR}
            kinds.setdefault((setting.base, setting_key(rest)), {})[year] = setting
    named: dict[str, dict[int, Setting]] = {}
    for years in kinds.values():
        if len(years) > 1:
            named[next(iter(years.values())).label_without(*OF_THE_YEAR)] = dict(sorted(years.items()))
    return named


def _ranks(years: dict[int, Setting], protocol: str) -> pd.DataFrame:
    """Ranks and metrics of the queries of all years and seeds, with ``year``; no rows where a year has no ranking."""
    tables = []
    for year, setting in years.items():
        found = setting.ranks(setting.methods[0], protocol)
        if found is not None:
            tables.append(found.assign(year=year))
    return pd.concat(tables, ignore_index=True) if len(tables) == len(years) else pd.DataFrame()


def _pooled(name: str, ranks: pd.DataFrame) -> dict[str, object]:
    years = ranks["year"].unique()
    values = query_metrics(ranks.drop(columns="year"))
    at_k = [metric for metric in values if metric.startswith("rr@") and not metric.endswith(("_low", "_high"))]
    ends = ("rr@10_low", "rr@10_high", "mrr", "mrr_low", "mrr_high")
    shown = pick(values, ("reachable", *at_k, *ends))
    return {"model": name, "years": f"{years.min()} to {years.max()}", "queries": ranks["id"].nunique(), **shown}


def _by_year(name: str, ranks: pd.DataFrame) -> list[dict[str, object]]:
    rows = []
    names = [f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")]
    for year, mine in ranks.groupby("year"):
        values = query_metrics(mine.drop(columns="year"))
        shown = pick(values, ("reachable", *names))
        rows.append({"model": name, "year": str(year), "queries": mine["id"].nunique(), **shown})
    return rows


def _figures(table: pd.DataFrame, drawn: list[str], protocol: str, corpus: str) -> list[tuple[str, str, Figure]]:
    figures = []
    shown = table[table["model"].isin(drawn)]
    for metric in (metric for metric in METRICS if metric in table):
        caption = f"{metric_name(metric)} over the years, {protocol.replace('_', ' ')}"
        figure = name_subject(charts.year_curve(shown, metric), corpus)
        figures.append((f"years_{metric}_{protocol}_{corpus}", caption, figure))
    return figures


def sensitivity(corpus: str, settings: list[Setting]) -> Section | None:
    """A line over each option that varies alone, a grid over two that vary together; None if no option varies."""
    trained = [setting for setting in settings if not setting.runs[0].is_baseline]
    grids = {pair: _swept_grids(trained, pair) for pair in combinations(SWEPT, 2)}
    in_grids = {name for pair, found in grids.items() if found for name in pair}
    lines = {name: _swept_groups(trained, (name,)) for name in SWEPT if name not in in_grids}
    shown = [group for found in (*grids.values(), *lines.values()) for group in found]
    if not shown:
        return None
    chosen = {setting.label for group in shown for setting in group}
    swept = [name for name in SWEPT if name in in_grids or lines.get(name)]
    table = pd.DataFrame([_sensitivity_row(setting, swept) for setting in trained if setting.label in chosen])
    metrics = [name for name in SENSITIVITY_METRICS if name in table]
    figures = [
        figure
        for metric in metrics
        for figure in (*_line_charts(lines, metric, corpus), *_grid_charts(grids, metric, corpus))
    ]
    table = table.dropna(axis="columns", how="all")
    return Section(f"Sensitivity: {corpus}", SENSITIVITY_TEXT, [table], figures)


def _swept_groups(settings: list[Setting], names: tuple[str, ...]) -> list[list[Setting]]:
    """Groups of settings that differ only in some options; each group has two values or more of each option."""
    ignored = {*names, *(REPEATED_BY[name] for name in names if name in REPEATED_BY)}
    groups: dict[Any, list[Setting]] = {}
    for setting in settings:
        if all(name in setting.counted for name in names):
            rest = {name: value for name, value in setting.counted.items() if name not in ignored}
            groups.setdefault((setting.base, setting_key(rest)), []).append(setting)
    return [group for group in groups.values() if all(_count_values(group, name) > 1 for name in names)]


def _swept_grids(settings: list[Setting], pair: tuple[str, str]) -> list[list[Setting]]:
    """Groups in which two options vary together, not only one at a time."""
    # Three and four values, one at a time around a common point, are 3 + 4 - 1 settings; a grid has more.
    groups = _swept_groups(settings, pair)
    return [group for group in groups if len(group) > sum(_count_values(group, name) for name in pair) - 1]


def _count_values(group: list[Setting], name: str) -> int:
    return len({setting.counted[name] for setting in group})


def _sensitivity_row(setting: Setting, swept: list[str]) -> dict[str, object]:
    row: dict[str, object] = {"model": setting.label_without(*swept)}
    row |= {name: setting.counted.get(name) for name in swept}
    row["seeds"] = len(setting.runs)
    for metric in SENSITIVITY_METRICS:
        values = setting.by_seed(metric)
        if values is not None:
            row |= {metric: float(np.mean(values)), f"{metric} deviation": _deviation(values)}
    return row


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def _line_charts(lines: dict[str, list[list[Setting]]], metric: str, corpus: str) -> list[tuple[str, str, Figure]]:
    figures = []
    for name, groups in lines.items():
        table = _sensitivity_table(groups, (name,), metric)
        if len(table):
            caption = f"{metric_name(metric)} over {name}"
            subject = f"{corpus}: {table['model'].iloc[0]}" if table["model"].nunique() == 1 else corpus
            figure = name_subject(charts.sensitivity_grid(table, name, None, metric), subject)
            figures.append((f"line_{metric}_{name}_{corpus}", caption, figure))
    return figures


def _grid_charts(
    grids: dict[tuple[str, str], list[list[Setting]]], metric: str, corpus: str
) -> list[tuple[str, str, Figure]]:
    figures = []
    for (first, second), groups in grids.items():
        for number, group in enumerate(groups):
            table = _sensitivity_table([group], (first, second), metric)
            if len(table):
                caption = f"{metric_name(metric)} over {first} and {second}: {table['model'].iloc[0]}"
                subject = f"{corpus}: {table['model'].iloc[0]}"
                figure = name_subject(charts.sensitivity_grid(table, first, second, metric), subject)
                figures.append((f"grid_{metric}_{first}_{second}_{number}_{corpus}", caption, figure))
    return figures


def _sensitivity_table(groups: list[list[Setting]], names: tuple[str, ...], metric: str) -> pd.DataFrame:
    """A row for each setting that has the metric: the group's name, the options, mean and standard deviation."""
    rows = []
    for setting in (setting for group in groups for setting in group):
        values = setting.by_seed(metric)
        if values is not None:
            row = {"model": setting.label_without(*names), **{name: setting.counted[name] for name in names}}
            rows.append(row | {metric: float(np.mean(values)), f"{metric}_deviation": _deviation(values)})
    return pd.DataFrame(rows)
