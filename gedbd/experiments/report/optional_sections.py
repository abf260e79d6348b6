"""Sections of a report that only some runs have: on labels, texts, training, test years, swept options, and figures."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import FROZEN, TEXT, TEXT_GRAPH, metric_name
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.figures import training_curves
from gedbd.experiments.report import charts
from gedbd.experiments.report.counted_options import setting_key
from gedbd.experiments.report.run_comparison import compare_runs
from gedbd.experiments.report.run_settings import Setting, query_metrics, ranked_protocols
from gedbd.experiments.report.section import MAX_DRAWN, Section, first_of, pick, with_models
from gedbd.retrieval.ranking_tasks import EARLIER, TEST_POOL

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
INTERVALS = tuple(SCARCITY_METRICS)  # the metrics with the ends of their intervals
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
    rows: list[dict[str, Any]] = []
    for kind, mine in kinds.items():
        for fraction, setting in mine.items():
            values = pick(setting.rank_metrics(setting.methods[0]) or {}, SCARCITY_METRICS)
            rows.append({"fraction": fraction, "kind": kind, "seeds": len(setting.runs), **values})
    table = pd.DataFrame(rows)
    figures = [
        (f"scarcity_{metric}_{corpus}", f"{metric_name(metric)} over the share", charts.scarcity_curve(table, metric))
        for metric in METRICS
    ]
    first, *others = kinds
    differences = []
    for kind in others:
        for fraction in sorted(kinds[kind].keys() & kinds[first].keys()):
            setting = kinds[kind][fraction]
            base = kinds[first][fraction]
            if setting.seeds == base.seeds and setting.same_test(base):
                about = {"fraction": fraction, "difference": f"{kind} less {first}", "seeds": len(setting.runs)}
                differences.append(about | _differences(setting, base))
    shown = table.sort_values(["fraction", "kind"]).rename(columns=SCARCITY_METRICS)
    tables = [shown, pd.DataFrame(differences)] if differences else [shown]
    return Section(f"Label scarcity: {corpus}", SCARCITY_TEXT, tables, figures, subject=corpus)


def _differences(setting: Setting, base: Setting) -> dict[str, object]:
    """The differences of the metrics of two settings, with intervals and p values."""
    table = compare_runs(setting.runs, base.runs).set_index("metric")
    row: dict[str, object] = {}
    for metric in METRICS:
        found = table.loc[metric]
        name = metric_name(metric)
        row |= {name: found["difference"], f"{name}_low": found["difference_low"]}
        row |= {f"{name}_high": found["difference_high"], f"p of {name}": found["p_value"]}
    return row


def configurations(corpus: str, settings: list[Setting]) -> Section | None:
    """A row for each combination of text and training; None if no setting has a field template."""
    with_fields = [setting for setting in settings if "text.captions" in setting.options]
    rows = [
        _configuration_row(setting, setting.methods[0])
        for setting in with_fields
        if not setting.runs[0].is_baseline or setting.runs[0].config.name == FROZEN  # an encoder alone gives its scores
    ]
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
    sections = []
    for name in dict.fromkeys(name for setting in settings for name in setting.runs[0].captions):
        by_content: dict[bytes, Setting] = {}
        for setting in settings:
            if name in setting.runs[0].captions:
                by_content.setdefault(setting.runs[0].figure_file(name).read_bytes(), setting)
        drawn, notice = first_of(list(by_content.values()))
        figures = []
        for number, setting in enumerate(drawn):
            run = setting.runs[0]
            alone = [other.corpus for other in drawn].count(setting.corpus) == 1
            whose = setting.corpus if alone else f"{setting.label}, {setting.corpus}"
            figures.append((f"{name}_{number}", f"{whose}: {run.captions[name]}", run.figure_file(name)))
        sections.append(Section(name.replace("_", " ").capitalize(), notice.strip(), [], figures))
    return sections


def training(settings: list[Setting]) -> Section | None:
    """Median minutes of an epoch, absolute and relative to a base setting of the same corpus.

    The base setting of a corpus is its first one of text alone, or, without any, its first one.
    """
    if not settings:
        return None
    bases: dict[str, Setting] = {}
    for setting in sorted(settings, key=lambda setting: setting.methods[0] != TEXT):
        if len(_epoch_minutes(setting)):
            bases.setdefault(setting.corpus, setting)
    rows = []
    figures = []
    shown, notice = first_of([setting for setting in settings if _epochs(setting)])
    for setting in settings:
        minutes = _epoch_minutes(setting)
        base = bases.get(setting.corpus)
        # Of few short epochs, the mean would follow the first, which warms up.
        median = float(np.median(minutes)) if len(minutes) else float("nan")
        relative = float("nan") if base is None else median / float(np.median(_epoch_minutes(base)))
        about = {"model": setting.label, "corpus": setting.corpus}
        rows.append(about | {"minutes per epoch": median, "epochs of all seeds": len(minutes), "relative": relative})
    for number, setting in enumerate(shown):
        caption = f"Loss and F1 by epoch: {setting.label}, {setting.corpus}"
        figure = name_subject(training_curves(_epochs(setting)), f"{setting.corpus}: {setting.label}")
        figures.append((f"training_{number}", caption, figure))
    named = "; ".join(f"in {corpus} to {base.label}" for corpus, base in bases.items())
    text = f"Median time of an epoch, relative (the paper's Table 4) {named}. " if bases else ""
    text += f"Loss and F1 by epoch (its Figures 3 and 4).{notice}"
    return Section("Training", text, [pd.DataFrame(rows)], figures)


def _epochs(setting: Setting) -> list[pd.DataFrame]:
    """The tables of epochs of its runs."""
    return [run.epochs for run in setting.runs if run.epochs is not None]


def _epoch_minutes(setting: Setting) -> np.ndarray:
    """The minutes of every epoch of its runs."""
    return np.concatenate([np.empty(0), *(table["train/seconds"].dropna() / 60 for table in _epochs(setting))])


def walk_forward(corpus: str, settings: list[Setting]) -> Section | None:
    """Pooled metrics of each method, and those of each year; None if no method was run for two years."""
    methods = _by_method(settings)
    if not methods:
        return None
    tables = []
    figures: list[tuple[str, str, Figure]] = []
    protocols = ranked_protocols(setting for years in methods.values() for setting in years.values())
    for protocol in protocols:
        heading = {} if len(protocols) == 1 else {"ranked": protocol.replace("_", " ")}
        pooled = []
        by_year = []
        for model, years in methods.items():
            ranks = _ranks(years, protocol)
            if len(ranks):
                at_k = [name for name in map(str, ranks) if name.startswith("rr@")]
                span = {"model": model, "years": f"{min(years)} to {max(years)}"}
                pooled.append(span | _means(ranks, (*at_k, *INTERVALS)) | heading)
            for year, mine in ranks.groupby("year") if len(ranks) else ():
                by_year.append({"model": model, "year": str(year)} | _means(mine, INTERVALS) | heading)
        if not pooled:
            continue
        tables += [pd.DataFrame(pooled), pd.DataFrame(by_year)]
        drawn = [row["model"] for row in pooled[:MAX_DRAWN]]
        shown = tables[-1][tables[-1]["model"].isin(drawn)]
        for metric in (metric for metric in METRICS if metric in shown):
            caption = f"{metric_name(metric)} over the years, {protocol.replace('_', ' ')}"
            figures.append((f"years_{metric}_{protocol}_{corpus}", caption, charts.year_curve(shown, metric)))
    title = f"Walk-forward by year: {corpus}"
    return Section(title, WALK_FORWARD_TEXT, tables, figures, subject=corpus) if tables else None


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


def _means(ranks: pd.DataFrame, names: tuple[str, ...]) -> dict[str, object]:
    """The number of queries, the share with a relevant candidate, and some metrics with their intervals."""
    values = pick(query_metrics(ranks.drop(columns="year")), ("reachable", *names))
    return {"queries": ranks["id"].nunique(), **values}


def sensitivity(corpus: str, settings: list[Setting]) -> Section | None:
    """A line over each option that varies alone, a grid over two that vary together; None if no option varies."""
    trained = [setting for setting in settings if not setting.runs[0].is_baseline]
    swept: dict[tuple[str, ...], list[list[Setting]]] = {
        pair: _swept_grids(trained, pair) for pair in combinations(SWEPT, 2)
    }
    in_grids = {name for pair, groups in swept.items() if groups for name in pair}
    swept |= {(name,): _swept_groups(trained, (name,)) for name in SWEPT if name not in in_grids}
    chosen = {setting.label for groups in swept.values() for group in groups for setting in group}
    if not chosen:
        return None
    varied = {name for names, groups in swept.items() if groups for name in names}
    options = [name for name in SWEPT if name in varied]
    rows = []
    for setting in trained:
        if setting.label in chosen:
            row = {"model": setting.label_without(*options)} | {name: setting.counted.get(name) for name in options}
            row["seeds"] = len(setting.runs)
            rows.append(row | _over_seeds(setting, SENSITIVITY_METRICS, " deviation"))
    table = pd.DataFrame(rows)
    figures = [
        figure
        for metric in SENSITIVITY_METRICS
        if metric in table
        for names, groups in swept.items()
        # A chart shows all lines over an option, or one grid.
        for number, part in enumerate([groups] if len(names) == 1 else [[group] for group in groups])
        for figure in _swept_chart(part, names, number, metric, corpus)
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


def _over_seeds(setting: Setting, metrics: tuple[str, ...], suffix: str) -> dict[str, object]:
    """Mean and, with a suffix, standard deviation of those metrics that all runs of a setting have."""
    found: dict[str, object] = {}
    for metric in metrics:
        values = setting.by_seed(metric)
        if values is not None:
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
            found |= {metric: float(np.mean(values)), f"{metric}{suffix}": deviation}
    return found


def _swept_chart(
    groups: list[list[Setting]], names: tuple[str, ...], number: int, metric: str, corpus: str
) -> list[tuple[str, str, Figure]]:
    """The chart of a metric over one option or two; an empty list if no setting has the metric."""
    rows = []
    for setting in (setting for group in groups for setting in group):
        values = _over_seeds(setting, (metric,), "_deviation")
        if values:
            options = {name: setting.counted[name] for name in names}
            rows.append({"model": setting.label_without(*names)} | options | values)
    if not rows:
        return []
    models = dict.fromkeys(row["model"] for row in rows)
    whose = f": {next(iter(models))}" if len(models) == 1 else ""
    is_grid = len(names) == 2
    stem = "_".join(["grid" if is_grid else "line", metric, *names, *([str(number)] if is_grid else []), corpus])
    caption = f"{metric_name(metric)} over {' and '.join(names)}{whose if is_grid else ''}"
    second = names[1] if is_grid else None
    figure = charts.sensitivity_grid(pd.DataFrame(rows), names[0], second, metric)
    return [(stem, caption, name_subject(figure, f"{corpus}{whose}"))]
