"""The section of a report about walk-forward runs: several test years, each with a training on the years before it."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.options import setting_key
from gedbd.evaluation.report.section import MAX_DRAWN, Section, pick
from gedbd.evaluation.report.settings import Setting, query_metrics, ranked_protocols

# The corpus ends with the year, so its contents differ between the years too.
OF_THE_YEAR = ("split.year", "dataset.contents")
METRICS = ("rr@10", "mrr")
TEXT = (
    "Each method is trained on the years before each test year, and its queries of all years are pooled: a query is in"
    " one year only. Intervals (95%) are bootstrapped over duplicate groups. The second table has the years one by one."
)


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
    return Section(f"Walk-forward by year: {corpus}", TEXT, tables, figures) if tables else None


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
