"""The parts of a report, each made where the runs hold something for it."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from gedbd.data.queries import EARLIER, PROTOCOLS, TEST_POOL
from gedbd.evaluation.leak import leak_warning
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.configurations import configurations
from gedbd.evaluation.report.scarcity import scarcity
from gedbd.evaluation.report.section import Section, pick
from gedbd.evaluation.report.settings import Setting

SWEPT = ("fusion.lambda_text", "loss.margin", "graph.pca_dim", "encoder.dim")
MOST = 24
RANKED = {
    EARLIER: (
        "Ranking",
        "Each of {count} test reports with an earlier duplicate is ranked against all reports filed before it; ranks"
        " count duplicate groups. {reachable:.1%} of them can be found.",
    ),
    TEST_POOL: (
        "Ranking in the test pool",
        "Each of {count} test reports with a duplicate in the test part is ranked against the other reports of that"
        " part, earlier and later ones; ranks count reports. So there are fewer wrong reports, and more right ones,"
        " than a triager meets.",
    ),
}


def make_sections(settings: list[Setting]) -> list[Section]:
    """All parts for which the runs hold something."""
    by_corpus: dict[str, list[Setting]] = {}
    for setting in settings:
        by_corpus.setdefault(setting.corpus, []).append(setting)
    made = [
        _leak(settings),
        *(_ranking(corpus, mine, protocol) for corpus, mine in by_corpus.items() for protocol in PROTOCOLS),
        *(configurations(corpus, mine) for corpus, mine in by_corpus.items()),
        *(_pairs(corpus, mine) for corpus, mine in by_corpus.items()),
        *(scarcity(corpus, mine) for corpus, mine in by_corpus.items()),
        *(_sensitivity(corpus, mine) for corpus, mine in by_corpus.items()),
        _training([setting for setting in settings if not setting.runs[0].is_baseline]),
        _maps(settings),
        _settings(settings),
    ]
    return [section for section in made if section is not None]


def _leak(settings: list[Setting]) -> Section:
    rows, warnings = [], []
    for setting in settings:
        split = str(setting.options["split._target_"]).rsplit(".", 1)[-1].removesuffix("Split").lower()
        audit = setting.runs[0].leak
        shares = ("test_reports_in_training", "test_groups_in_training", "closure_f1", "always_duplicate_f1")
        known = f"{setting.options['labels.fraction']:g}"
        row = {"corpus": setting.corpus, "split": split, "known": known, **{name: audit[name] for name in shares}}
        if row not in rows:
            rows.append(row)
            warnings += [f"split={split} of {setting.corpus} leaks."] if leak_warning(audit) else []
    text = (
        "What the test part shares with training, where a share of the training groups is known. Transitive closure"
        " reads no text: it follows chains of training pairs. Where it finds anything, scores on pairs flatter every"
        " model. " + " ".join(warnings)
    )
    return Section("Leak audit", text.strip(), [pd.DataFrame(rows)])


def _ranking(corpus: str, settings: list[Setting], protocol: str) -> Section | None:
    ranked = [setting for setting in settings if setting.rank_metrics(setting.methods[0], protocol) is not None]
    if not ranked:
        return None
    queries = ranked[0].ranks(ranked[0].methods[0], protocol)
    assert queries is not None
    title, text = RANKED[protocol]
    text = text.format(count=queries["issue_id"].nunique(), reachable=queries["reachable"].mean())
    text += " Intervals (95%) are bootstrapped over duplicate groups."

    def metrics(setting: Setting, method: str) -> dict[str, float]:
        values = setting.rank_metrics(method, protocol) or {}
        at_k = [name for name in values if name.startswith("rr@")]
        return pick(values, (*at_k, "mrr", "mrr_low", "mrr_high", "map", "map@10", "map@10_low", "map@10_high"))

    table = _methods(ranked, metrics)
    curves = charts.rank_curves(ranked[:MOST], protocol)
    return Section(
        f"{title}: {corpus}",
        text,
        [table],
        [(f"rank_curves{'_pool' if protocol == TEST_POOL else ''}_{corpus}", "RR@k over k", curves)],
    )


def _pairs(corpus: str, settings: list[Setting]) -> Section:
    _, labels = settings[0].scores(settings[0].methods[0])
    share = float((labels == 1).mean())
    text = (
        f"Sampled pairs, {share:.1%} of them duplicates; always saying so gives F1 {2 * share / (1 + share):.3f}."
        " Each model's threshold is the best on validation pairs (the paper's Table 5)."
    )
    table = _methods(settings, lambda setting, method: pick(setting.pair_metrics(method), _PAIRS))
    figures = [
        (f"precision_recall_{corpus}", "Precision over recall", charts.precision_recall(settings[:MOST])),
        (f"confusion_{corpus}", "Confusion matrices", charts.confusion_matrices(settings[:MOST])),
    ]
    return Section(f"Pairs: {corpus}", text, [table], figures)


def _methods(settings: list[Setting], metrics: Callable[[Setting, str], dict[str, float]]) -> pd.DataFrame:
    """A row for each setting's own method and for its rivals; rivals that several settings share appear once."""
    rows: list[dict[str, Any]] = []
    seen = []
    for setting in settings:
        for method in setting.methods:
            own = method == setting.methods[0]
            values = metrics(setting, method)
            if own or values not in seen:
                name = setting.label if own else f"{method} of {setting.label}"
                rows.append({"model": name, "seeds": len(setting.runs), **values})
            seen.append(values)
    return pd.DataFrame(rows)


def _sensitivity(corpus: str, settings: list[Setting]) -> Section | None:
    trained = [setting for setting in settings if not setting.runs[0].is_baseline]
    rows = []
    for setting in trained:
        ranked = setting.rank_metrics(setting.methods[0]) or {}
        metrics = setting.pair_metrics(setting.methods[0])
        options = {name: setting.options[name] for name in SWEPT if name in setting.options}
        rows.append(options | {"f1": metrics["f1"]} | pick(ranked, ("rr@10", "mrr")))
    table = pd.DataFrame(rows)
    swept = [name for name in SWEPT if name in table and table[name].nunique() > 1]
    if not swept:
        return None
    shown = [name for name in ("f1", "rr@10") if name in table]
    pairs: list[tuple[str, str | None]] = [(a, b) for place, a in enumerate(swept) for b in swept[place + 1 :]]
    pairs = pairs or [(swept[0], None)]
    figures = [
        (
            f"grid_{metric}_{a}_{b}_{corpus}",
            f"{metric.upper()} over {a} and {b}",
            charts.sensitivity_grid(table, a, b, metric),
        )
        for a, b in pairs
        for metric in shown
    ]
    text = "How much the result hangs on options that were swept; cells are means over all else that varied."
    return Section(f"Sensitivity: {corpus}", text, [table[[*swept, *shown]]], figures)


def _training(settings: list[Setting]) -> Section | None:
    if not settings:
        return None
    rows = []
    base = next((setting for setting in settings if setting.methods[0] == "text alone"), settings[0])
    slowest = _minutes(base)
    for setting in settings:
        minutes = _minutes(setting)
        rows.append(
            {"model": setting.label, "corpus": setting.corpus, "min_per_epoch": minutes, "rel.": minutes / slowest}
        )
    text = (
        f"Time of an epoch, relative to {base.label} (the paper's Table 4); loss and F1 by epoch (its Figures 3 and 4)."
    )
    figures = [
        (
            f"training_{number}",
            f"Loss and F1 by epoch: {setting.label}, {setting.corpus}",
            charts.training_curves(setting),
        )
        for number, setting in enumerate(settings[:MOST])
    ]
    return Section("Training", text, [pd.DataFrame(rows)], figures)


def _maps(settings: list[Setting]) -> Section | None:
    shown = [setting for setting in settings if setting.runs[0].map is not None and len(setting.runs[0].map)]
    figures = []
    for number, setting in enumerate(shown[:4]):
        table = setting.runs[0].map
        assert table is not None
        caption = (
            f"Reports by {setting.label}, {setting.corpus}: duplicates share colour and mark, lone reports are grey"
        )
        figures.append((f"map_{number}", caption, charts.report_map(table)))
    text = "The largest duplicate groups that test touches, and some reports without duplicates."
    return Section("Map of reports", text, [], figures) if figures else None


def _settings(settings: list[Setting]) -> Section:
    rows = [
        {
            "model": setting.label,
            "corpus": setting.corpus,
            "seeds": " ".join(str(run.config.seed) for run in setting.runs),
            "folder": setting.runs[0].folder.as_posix(),
        }
        for setting in settings
    ]
    text = (
        "Every run folder holds its resolved configuration (config.yaml) and the versions it ran with (versions.json)."
    )
    return Section("Runs", text, [pd.DataFrame(rows)])


_PAIRS = ("threshold", "precision", "recall", "f1", "f1_low", "f1_high", "accuracy", "average_precision")


def _minutes(setting: Setting) -> float:
    tables = [run.epochs for run in setting.runs]
    seconds = [table["train/seconds"].mean() for table in tables if table is not None]
    return sum(seconds) / len(seconds) / 60
