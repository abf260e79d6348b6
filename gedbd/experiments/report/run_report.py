"""The report about many runs: its sections, and what the user can do next."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.configuration.command_words import path_value
from gedbd.evaluation import figures
from gedbd.evaluation.display_names import TEXT, metric_name
from gedbd.evaluation.figures import name_subject
from gedbd.evaluation.pairwise import leak_warning
from gedbd.experiments.report.report_page import Section, fill_tables, slug, write_report
from gedbd.experiments.report.run_comparison import compare_runs
from gedbd.experiments.report.run_settings import (
    CONTENTS,
    Setting,
    by_corpus,
    group_settings,
    query_metrics,
    ranked_protocols,
)
from gedbd.experiments.run_folder import find_runs
from gedbd.io.command_output import record
from gedbd.io.console import open_console, print_line, print_path, stage
from gedbd.io.files import write_text
from gedbd.retrieval.ranking_tasks import metric_prefix

RUNS_TEXT = (
    "Each run folder holds the resolved configuration (config.yaml), and the package versions and the options as typed"
    " (versions.json)."
)
REPEATED_TEXT = (
    " The second table lists repeated runs, which are left out: for each setting and seed, only the newest run counts."
)
LEAK_TEXT = (
    "What the test part shares with training, by the share of known training groups. Only reports of the test part"
    " count: the older ones that they are compared with may be in training. Transitive closure reads no text: it"
    " follows chains of training pairs. If it finds any test duplicate, the results on pairs are too good for every"
    " model."
)
LEAK_SHARES = ("test_reports_in_training", "test_groups_in_training", "closure_f1", "always_duplicate_f1")
PAIR_COLUMNS = ("threshold", "precision", "recall", "f1", "f1_low", "f1_high", "accuracy", "average_precision")
OVER_TEXT = (
    "Settings that differ in nothing else, as means over seeds; intervals (95%) are bootstrapped over duplicate groups."
)
POOLED_TEXT = " Each query belongs to one year: the second table pools the queries of all years."
DIFFERENCES_TEXT = (
    " The last table has the differences at the same value, query by query over the same seeds: their intervals are"
    " narrower than those of the values. P values are of Wilcoxon's test."
)
YEAR = "split.year"
OVER_RANKING = ("rr@10", "mrr", "map@10")
DRAWN_METRICS = ("f1", "rr@10", "mrr")
MAX_DRAWN = 24  # settings in a figure, or figures of a kind
MAX_PROJECTIONS = 4
T = TypeVar("T")
Row = dict[str, Any]


def report_runs(paths: list[Path], folder: Path, fill: Path | None, title: str, command: str) -> None:
    """Writes the page, and prints a summary and the runs it leaves out.

    ``fill`` is a Markdown or LaTeX file whose marked tables are replaced, see ``fill_tables``.
    """
    with stage("read the runs"):
        runs, unfinished, outdated, own_pages = find_runs(paths)
    settings = group_settings(runs)
    sections = make_sections(settings)
    if fill:
        write_text(fill, fill_tables(fill.read_text(), sections, in_latex=fill.suffix == ".tex"))
    folder.mkdir(parents=True, exist_ok=True)
    summary = summarise(settings, len(unfinished), len(own_pages), len(outdated))
    page = write_report(
        folder,
        title,
        summary,
        sections,
        command=command,
        date=datetime.now().astimezone(),
        next_steps=next_steps(settings, unfinished),
    )
    console = open_console()
    for run in repeated_runs(settings):
        run_text = f"{run['left out']} (seed {run['seed']} of {run['model']}; newer: {run['newer']})"
        print_line(console, f"left out, repeated: {run_text}")
    for run_folder in unfinished:
        print_path(console, "left out because unfinished:", run_folder)
    for run_folder in own_pages:
        print_path(console, "left out because it has its own page:", run_folder / "report.html")
    for line in outdated:
        print_line(console, f"left out: {line}")
    record(page=page, markdown=page.with_suffix(".md"), summary=summary, not_finished=list(map(str, unfinished)))
    print_line(console, summary)
    print_path(console, "report:", page)


def make_sections(settings: list[Setting]) -> list[Section]:
    """All sections for which the runs have results."""
    corpora = by_corpus(settings)
    sections: list[Section | None] = []
    for corpus, corpus_settings in corpora.items():
        sections += [
            ranking_section(corpus, corpus_settings, protocol) for protocol in ranked_protocols(corpus_settings)
        ]
    for corpus, corpus_settings in corpora.items():
        sections += [option_section(corpus, corpus_settings, name) for name in varied_options(corpus_settings)]
    sections += [pairs_section(corpus, corpus_settings) for corpus, corpus_settings in corpora.items()]
    trained = [setting for setting in settings if not setting.is_baseline]
    sections += [leak_section(settings), training_section(trained), projection_section(settings)]
    return [section for section in [*sections, *task_figures(settings), runs_section(settings)] if section is not None]


def leak_section(settings: list[Setting]) -> Section:
    """What the test split shares with training; settings with the same audit share a row."""
    rows: list[Row] = []
    warnings: list[str] = []
    for setting in settings:
        audits = [run.leak for run in setting.runs]
        row: Row = {"corpus": setting.corpus, "split": setting.split}
        row["known"] = f"{setting.runs[0].config.labels.fraction:g}"
        row |= {name: float(np.mean([audit[name] for audit in audits])) for name in LEAK_SHARES}
        if all(row.items() - other.items() for other in rows):
            rows.append(row | {"model": setting.label})
            leaks = any(leak_warning(audit) for audit in audits)
            warnings += [f"split={setting.split} of {setting.corpus} leaks."] if leaks else []
    table = pd.DataFrame(rows)
    if not table.duplicated(["corpus", "split", "known"]).any():
        table = table.drop(columns="model")  # the other columns identify each row
    return Section("Leak audit", " ".join([LEAK_TEXT, *warnings]), [table])


def ranking_section(corpus: str, settings: list[Setting], protocol: str) -> Section | None:
    """The metrics of all methods on the queries of a protocol; None if no setting has ranked them."""
    ranked = [setting for setting in settings if setting.ranks(setting.methods[0], protocol) is not None]
    if not ranked:
        return None
    queries = [table for setting in ranked if (table := setting.ranks(setting.methods[0], protocol)) is not None]
    counts = [float(table["id"].nunique()) for table in queries]
    reachable = [float(table["reachable"].mean()) for table in queries]
    words = ranked[0].runs[0].protocols[protocol]
    text = words.paragraph(_range(counts, "{:.0f}"), _range(reachable, "{:.1%}"))
    drawn, notice = first_of(ranked)
    text += f" Intervals (95%) are bootstrapped over duplicate groups.{notice}"

    def metrics(setting: Setting, method: str) -> dict[str, float]:
        ranks = setting.ranks(method, protocol)
        values = {} if ranks is None else query_metrics(ranks)
        at_k = [name for name in values if name.startswith("rr@")]
        return pick(values, (*at_k, "mrr", "mrr_low", "mrr_high", "map", "map@10", "map@10_low", "map@10_high"))

    table, left_out = _methods(ranked, metrics)
    first = drawn[0]
    lines = {setting.label: setting.ranks(setting.methods[0], protocol) for setting in drawn}
    lines |= {first.name_of(method): first.ranks(method, protocol) for method in first.methods[1:]}
    ranks = {name: ranks for name, ranks in lines.items() if ranks is not None and len(ranks)}
    curves = figures.rank_curves(ranks, words.unit, wide=True)
    name = "_".join(filter(None, ("rank_curves", metric_prefix(protocol).removesuffix("_"), corpus)))
    drawn_curves = [(name, f"RR@k by k: {corpus}", curves)]  # the legend names the models
    return Section(f"{words.heading}: {corpus}", text + left_out, [table], drawn_curves, subject=corpus)


def pairs_section(corpus: str, settings: list[Setting]) -> Section:
    """The metrics of all methods on sampled pairs."""
    labels = [setting.scores(setting.methods[0])[1] for setting in settings]
    shares = [float((label == 1).mean()) for label in labels]
    always_f1 = [2 * share / (1 + share) for share in shares]  # F1 at recall 1 and precision equal to the share
    drawn, notice = first_of(settings)
    text = (
        f"Sampled pairs, {_range(shares, '{:.1%}')} of them duplicates; always predicting a duplicate gives F1"
        f" {_range(always_f1, '{:.3f}')}. Each model's threshold is the best on validation pairs (the paper's Table 5):"
        f" one of 0, 0.05, ..., 1 for cosines of an encoder, a quantile of the scores for other methods.{notice}"
    )
    table, left_out = _methods(settings, lambda setting, method: pick(setting.pair_metrics(method), PAIR_COLUMNS))
    curves = figures.precision_recall({setting.label: setting.scores(setting.methods[0]) for setting in drawn}, True)
    predicted = {setting.label: pd.concat([run.reported_pairs for run in setting.runs]) for setting in drawn}
    drawn_pairs = [
        (f"precision_recall_{corpus}", f"Precision-recall curve: {corpus}", curves),
        (f"confusion_{corpus}", f"Confusion matrices: {corpus}", figures.confusion_matrices(predicted)),
    ]
    return Section(f"Pairs: {corpus}", text + left_out, [table], drawn_pairs, subject=corpus)


def _range(values: list[float], form: str) -> str:
    """The one value of all settings, or the lowest and the highest."""
    low = form.format(min(values))
    high = form.format(max(values))
    return low if low == high else f"{low} to {high}"


def _methods(settings: list[Setting], metrics: Callable[[Setting, str], dict[str, float]]) -> tuple[pd.DataFrame, str]:
    """A row for each method of each setting, and a sentence if rows are left out.

    Of several methods with equal results, such as the frozen encoder of each training, the first has a row.
    """
    rows: list[Row] = []
    seen = []
    left_out = 0
    for setting in settings:
        for method in setting.methods:
            values = metrics(setting, method)
            if method == setting.methods[0] or values not in seen:
                rows.append({"model": setting.name_of(method), "seeds": len(setting.runs), **values})
            else:
                left_out += 1
            seen.append(values)
    return pd.DataFrame(rows), f" Rows left out, as they equal a row above: {left_out}." if left_out else ""


def varied_options(settings: list[Setting]) -> list[str]:
    """Options, other than choices of files, in which some settings of a corpus differ while all else is equal."""
    names = dict.fromkeys(name for setting in settings for name in setting.options)
    return [name for name in names if "." in name and name != CONTENTS and _over_option(settings, name)]


def _over_option(settings: list[Setting], name: str) -> dict[str, dict[str, Setting]]:
    """Settings by model and by value of an option; a model is all that they agree in. Skips models with one value."""
    groups: dict[Any, dict[str, Setting]] = {}
    # With split.year the corpus ends with the year, so its contents differ too.
    ignored = (name, CONTENTS) if name == YEAR else (name,)
    for setting in settings:
        if setting.options.get(name):
            rest = tuple(item for item in setting.options.items() if item[0] not in ignored)
            groups.setdefault((setting.base, rest), {})[setting.options[name]] = setting
    models: dict[str, dict[str, Setting]] = {}
    for by_value in groups.values():
        if len(by_value) > 1:
            ordered = dict(sorted(by_value.items(), key=lambda item: _sort_key(item[0])))
            models[next(iter(by_value.values())).label_without(*ignored)] = ordered
    return models


def _sort_key(value: str) -> tuple[float, str]:
    """Sort key of option values: numbers first, by value, then other texts."""
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value


def option_section(corpus: str, settings: list[Setting], name: str) -> Section:
    """The metrics of each setting's own method over one option, and the differences between models at each value."""
    models = _over_option(settings, name)
    protocols = ranked_protocols(setting for by_value in models.values() for setting in by_value.values())
    rows = []
    for model, by_value in models.items():
        for value, setting in by_value.items():
            values = pick(setting.pair_metrics(setting.methods[0]), ("f1", "f1_low", "f1_high"))
            for protocol in protocols:
                ranks = setting.ranks(setting.methods[0], protocol)
                values |= {} if ranks is None else _option_metrics(ranks, protocol, OVER_RANKING)
            rows.append({"model": model, name: value, "seeds": len(setting.runs)} | values)
    table = pd.DataFrame(rows)
    tables = [table]
    text = OVER_TEXT
    if name == YEAR and protocols:
        text += POOLED_TEXT
        tables.append(pd.DataFrame([_pooled(model, by_value, protocols) for model, by_value in models.items()]))
    differences = _differences(models, name)
    if len(differences):
        text += DIFFERENCES_TEXT
        tables.append(differences)
    shown = table[table["model"].isin(list(models)[:MAX_DRAWN])]
    curves = [
        (
            f"{slug(name)}_{metric}_{corpus}",
            f"{metric_name(metric)} over {name}",
            figures.over_option(shown, name, metric),
        )
        for metric in DRAWN_METRICS
        if metric in table
    ]
    return Section(f"By {name}: {corpus}", text, tables, curves, subject=corpus)


def _option_metrics(ranks: pd.DataFrame, protocol: str, names: Iterable[str]) -> dict[str, float]:
    """Some metrics of queries with their intervals, and the number of queries of all earlier reports."""
    with_ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    values = {"queries": ranks["id"].nunique(), **pick(query_metrics(ranks), ("reachable", *with_ends))}
    return {f"{metric_prefix(protocol)}{name}": value for name, value in values.items()}


def _pooled(model: str, by_year: Mapping[str, Setting], protocols: list[str]) -> Row:
    """The metrics of the queries of all years and seeds together."""
    first, *_, last = by_year
    row: Row = {"model": model, "years": f"{first} to {last}"}
    for protocol in protocols:
        tables = [setting.ranks(setting.methods[0], protocol) for setting in by_year.values()]
        ranks = [table for table in tables if table is not None]
        if len(ranks) == len(tables):
            pooled = pd.concat(ranks, ignore_index=True)
            at_k = [name for name in map(str, pooled) if name.startswith("rr@")]
            row |= _option_metrics(pooled, protocol, dict.fromkeys([*at_k, *OVER_RANKING]))
    return row


def _differences(models: Mapping[str, Mapping[str, Setting]], name: str) -> pd.DataFrame:
    """The differences of each model from the first one at the same value, if both were tested on the same pairs."""
    first, *others = models
    rows = []
    for model in others:
        for value in [value for value in models[model] if value in models[first]]:
            setting = models[model][value]
            base = models[first][value]
            if setting.test_key() != base.test_key():
                continue
            table = compare_runs(setting.runs, base.runs).set_index("metric")
            row: Row = {name: value, "difference": f"{model} less {first}", "seeds": len(setting.runs)}
            for metric in (metric for metric in DRAWN_METRICS if metric in table.index):
                shown = metric_name(metric)
                row |= {shown: table.loc[metric, "difference"], f"{shown}_low": table.loc[metric, "difference_low"]}
                row |= {f"{shown}_high": table.loc[metric, "difference_high"]}
                row |= {} if metric == "f1" else {f"p of {shown}": table.loc[metric, "p_value"]}
            rows.append(row)
    return pd.DataFrame(rows)


def training_section(settings: list[Setting]) -> Section | None:
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
    curves = []
    drawn, notice = first_of([setting for setting in settings if _epochs(setting)])
    for setting in settings:
        minutes = _epoch_minutes(setting)
        base = bases.get(setting.corpus)
        # The median, since the first epoch, which warms up, would dominate the mean of few short epochs.
        median = float(np.median(minutes)) if len(minutes) else float("nan")
        relative = float("nan") if base is None else median / float(np.median(_epoch_minutes(base)))
        about = {"model": setting.label, "corpus": setting.corpus}
        rows.append(about | {"minutes per epoch": median, "epochs of all seeds": len(minutes), "relative": relative})
    for number, setting in enumerate(drawn):
        caption = f"Loss and F1 by epoch: {setting.label}, {setting.corpus}"
        figure = name_subject(figures.training_curves(_epochs(setting)), f"{setting.corpus}: {setting.label}")
        curves.append((f"training_{number}", caption, figure))
    base_names = "; ".join(f"in {corpus} to {base.label}" for corpus, base in bases.items())
    text = f"Median time of an epoch, relative (the paper's Table 4) {base_names}. " if bases else ""
    text += f"Loss and F1 by epoch (its Figures 3 and 4).{notice}"
    return Section("Training", text, [pd.DataFrame(rows)], curves)


def _epochs(setting: Setting) -> list[pd.DataFrame]:
    """The tables of epochs of a setting's runs."""
    return [run.epochs for run in setting.runs if run.epochs is not None]


def _epoch_minutes(setting: Setting) -> np.ndarray:
    """The minutes of every epoch of a setting's runs."""
    return np.concatenate([np.empty(0), *(table["train/seconds"].dropna() / 60 for table in _epochs(setting))])


def projection_section(settings: list[Setting]) -> Section | None:
    """The t-SNE projections of the first settings; None if no run has one."""
    projected = [setting for setting in settings if setting.runs[0].tsne is not None and len(setting.runs[0].tsne)]
    drawn, notice = first_of(projected, MAX_PROJECTIONS)
    maps = []
    for number, setting in enumerate(drawn):
        table = setting.runs[0].tsne
        assert table is not None
        caption = f"{setting.label}, {setting.corpus}: duplicates share colour and marker, other reports are grey"
        figure = name_subject(figures.tsne_projection(table), f"{setting.corpus}: {setting.label}")
        maps.append((f"tsne_{number}", caption, figure))
    text = f"The largest duplicate groups of the test part, and some reports without duplicates.{notice}"
    return Section("t-SNE projection of reports", text, [], maps) if maps else None


def task_figures(settings: list[Setting]) -> list[Section]:
    """A section for each figure that only some tasks draw, such as ``tag_network``, from the first run of each setting.

    A figure that is the same in several settings, such as one of their corpus, is shown once.
    """
    sections = []
    for name in dict.fromkeys(name for setting in settings for name in setting.runs[0].captions):
        by_content: dict[bytes, Setting] = {}
        for setting in settings:
            if name in setting.runs[0].captions:
                by_content.setdefault(setting.runs[0].figure_file(name).read_bytes(), setting)
        drawn, notice = first_of(list(by_content.values()))
        files: list[tuple[str, str, Figure | Path]] = []
        for number, setting in enumerate(drawn):
            run = setting.runs[0]
            alone = [other.corpus for other in drawn].count(setting.corpus) == 1
            owner = setting.corpus if alone else f"{setting.label}, {setting.corpus}"
            files.append((f"{name}_{number}", f"{owner}: {run.captions[name]}", run.figure_file(name)))
        sections.append(Section(name.replace("_", " ").capitalize(), notice.strip(), [], files))
    return sections


def runs_section(settings: list[Setting]) -> Section:
    """The runs that were read, and the repeated ones."""
    rows = [
        {
            "model": setting.label,
            "corpus": setting.corpus,
            "seed": str(run.config.seed),
            "folder": run.folder.as_posix(),
        }
        for setting in settings
        for run in setting.runs
    ]
    repeated = pd.DataFrame(repeated_runs(settings))
    tables = [pd.DataFrame(rows), repeated] if len(repeated) else [pd.DataFrame(rows)]
    return Section("Runs", RUNS_TEXT + (REPEATED_TEXT if len(repeated) else ""), tables)


def repeated_runs(settings: list[Setting]) -> list[dict[str, str]]:
    """Each repeated run with its setting, its seed and the newer run that replaces it."""
    rows = []
    for setting in settings:
        newest = {int(run.config.seed): run.folder.as_posix() for run in setting.runs}
        for run in setting.repeated:
            seed = int(run.config.seed)
            names = {"left out": run.folder.as_posix(), "newer": newest[seed]}
            rows.append({"model": setting.label, "corpus": setting.corpus, "seed": str(seed), **names})
    return rows


def summarise(settings: list[Setting], unfinished: int, own_pages: int, outdated: int = 0) -> str:
    """How many runs were read and how many were left out, in one or two sentences."""
    runs = sum(len(setting.runs) for setting in settings)
    repeated = sum(len(setting.repeated) for setting in settings)
    left_out = [
        _count(repeated, "repeated run"),
        _count(unfinished, "unfinished run"),
        _count(outdated, "run", " from another version of gedbd", " from another version of gedbd"),
        _count(own_pages, "run", " with a page of its own", " with pages of their own"),
    ]
    left_out = [text for text in left_out if text]
    summary = f"{_count(runs, 'run')} in {_count(len(settings), 'setting')}."
    return f"{summary} Left out: {'; '.join(left_out)}." if left_out else summary


def next_steps(settings: list[Setting], unfinished: list[Path]) -> list[tuple[str, str]]:
    """What the user can do next: a sentence and a command each; the command may be empty."""
    steps = []
    for folder in unfinished:
        last = folder / "checkpoints" / "last.ckpt"
        if last.is_file():
            command = shlex.join(["gedbd", "train", f"ckpt_path={path_value(last.as_posix())}"])
            steps.append(("Resume an interrupted run:", command))
    trained = [setting for setting in settings if not setting.is_baseline]
    single = [setting for setting in trained if len(setting.runs) == 1]
    if single:
        text = (
            f"{_count(len(single), 'setting')} trained with only one seed: seeds=3 shows the variation between seeds."
        )
        steps.append((text, ""))
    tested: dict[Any, Setting] = {}
    for setting in trained:
        base = tested.setdefault(setting.test_key(), setting)
        if base is not setting:
            command = shlex.join(["gedbd", "compare", f"run={setting.folders}", f"against={base.folders}"])
            steps.append(("Test whether two settings differ, query by query over the same seeds:", command))
            break
    return steps


def _count(number: int, noun: str, singular: str = "", plural: str = "") -> str:
    """``1 run``, ``2 runs``; an empty string for 0."""
    if number == 0:
        return ""
    return f"{number} {noun}{singular}" if number == 1 else f"{number} {noun}s{plural}"


def pick(values: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """The values that exist, in the order of the names."""
    return {name: values[name] for name in names if name in values}


def first_of(values: list[T], count: int = MAX_DRAWN) -> tuple[list[T], str]:
    """The first values, which are drawn, and a sentence that says so if there are more."""
    notice = f" Figures show the first {count} of {len(values)} settings." if len(values) > count else ""
    return values[:count], notice
