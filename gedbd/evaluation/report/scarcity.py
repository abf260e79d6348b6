"""The section of a report about label scarcity."""

import pandas as pd

from gedbd.evaluation.compare import compare_runs
from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.section import Section, pick
from gedbd.evaluation.report.settings import Setting

METRICS = ("rr@10", "mrr")
TEXT = (
    "Results when only a share of the training part's duplicate groups is known; all reports stay in the corpus."
    " The second table has the differences at the same share, query by query over the same seeds: their intervals are"
    " narrower than those of the values. P values are of Wilcoxon's test."
)
SHOWN = {f"{metric}{end}": f"{metric_name(metric)}{end}" for metric in METRICS for end in ("", "_low", "_high")}


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
    shown = table.sort_values(["fraction", "kind"]).rename(columns=SHOWN)
    tables = [shown, pd.DataFrame(differences)] if differences else [shown]
    return Section(f"Label scarcity: {corpus}", TEXT, tables, figures)


def _value(kind: str, fraction: float, setting: Setting) -> dict[str, object]:
    values = setting.rank_metrics(setting.methods[0]) or {}
    return {"fraction": fraction, "kind": kind, "seeds": len(setting.runs), **pick(values, SHOWN)}


def _difference(kind: str, base: str, fraction: float, setting: Setting, against: Setting) -> dict[str, object]:
    table = compare_runs(setting.runs, against.runs).set_index("metric")
    row: dict[str, object] = {"fraction": fraction, "difference": f"{kind} less {base}", "seeds": len(setting.runs)}
    for metric in METRICS:
        found = table.loc[metric]
        name = metric_name(metric)
        row |= {name: found["difference"], f"{name}_low": found["difference_low"]}
        row |= {f"{name}_high": found["difference_high"], f"p of {name}": found["p_value"]}
    return row
