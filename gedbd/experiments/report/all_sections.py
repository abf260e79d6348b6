"""Makes the sections of a report."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.figures import precision_recall, rank_curves
from gedbd.evaluation.leakage import leak_warning
from gedbd.experiments.report import charts
from gedbd.experiments.report.optional_sections import (
    configurations,
    scarcity,
    sensitivity,
    task_figures,
    training,
    walk_forward,
)
from gedbd.experiments.report.report_page import fill_tables, write_report
from gedbd.experiments.report.run_settings import Setting, group_settings, ranked_protocols
from gedbd.experiments.report.section import Section, first_of, pick, with_models
from gedbd.experiments.run_folder import find_own_pages, find_runs
from gedbd.io.command_output import record
from gedbd.io.console import open_console, print_line, print_path, stage
from gedbd.io.files import write_text
from gedbd.retrieval.ranking_tasks import metric_prefix

READ = "Each run folder holds the resolved configuration (config.yaml) and the package versions (versions.json)."
REPEATED = (
    " The second table lists repeated runs, which are left out: for each setting and seed, only the newest run counts."
)
ON_PAIRS = ("threshold", "precision", "recall", "f1", "f1_low", "f1_high", "accuracy", "average_precision")
MAX_PROJECTIONS = 4
EQUAL_ROWS = " Left out: {count} of the other methods of a training whose numbers equal those of a row above."


def make_sections(settings: list[Setting]) -> list[Section]:
    """All sections for which the runs have results."""
    by_corpus: dict[str, list[Setting]] = {}
    for setting in settings:
        by_corpus.setdefault(setting.corpus, []).append(setting)
    made = [
        _leak(settings),
        *(
            _ranking(corpus, mine, protocol)
            for corpus, mine in by_corpus.items()
            for protocol in ranked_protocols(mine)
        ),
        *(walk_forward(corpus, mine) for corpus, mine in by_corpus.items()),
        *(configurations(corpus, mine) for corpus, mine in by_corpus.items()),
        *(_pairs(corpus, mine) for corpus, mine in by_corpus.items()),
        *(scarcity(corpus, mine) for corpus, mine in by_corpus.items()),
        *(sensitivity(corpus, mine) for corpus, mine in by_corpus.items()),
        training([setting for setting in settings if not setting.runs[0].is_baseline]),
        _projections(settings),
        *task_figures(settings),
        runs_section(settings),
    ]
    return [section for section in made if section is not None]


def _leak(settings: list[Setting]) -> Section:
    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    for setting in settings:
        audits = [run.leak for run in setting.runs]
        shares = ("test_reports_in_training", "test_groups_in_training", "closure_f1", "always_duplicate_f1")
        known = f"{setting.options['labels.fraction']:g}"
        means = {name: float(np.mean([audit[name] for audit in audits])) for name in shares}
        row = {"corpus": setting.corpus, "split": setting.split, "known": known, **means}
        # Settings with the same audit share a row.
        if all(row.items() - other.items() for other in rows):
            rows.append(row | {"model": setting.label})
            leaks = any(leak_warning(audit) for audit in audits)
            warnings += [f"split={setting.split} of {setting.corpus} leaks."] if leaks else []
    text = (
        "What the test part shares with training, by the share of known training groups. Only reports of the test part"
        " count: the older ones that they are compared with may be in training. Transitive closure reads no text: it"
        " follows chains of training pairs. If it finds any test duplicate, the results on pairs are too good for every"
        " model. " + " ".join(warnings)
    )
    return Section("Leak audit", text.strip(), [with_models(rows, ("corpus", "split", "known"))])


def _ranking(corpus: str, settings: list[Setting], protocol: str) -> Section | None:
    ranked = [setting for setting in settings if setting.rank_metrics(setting.methods[0], protocol) is not None]
    if not ranked:
        return None
    queries = [table for setting in ranked if (table := setting.ranks(setting.methods[0], protocol)) is not None]
    counts = [float(table["id"].nunique()) for table in queries]
    reachable = [float(table["reachable"].mean()) for table in queries]
    words = ranked[0].words_of(protocol)
    text = words.paragraph(_range(counts, "{:.0f}"), _range(reachable, "{:.1%}"))
    drawn, notice = first_of(ranked)
    text += f" Intervals (95%) are bootstrapped over duplicate groups.{notice}"

    def metrics(setting: Setting, method: str) -> dict[str, float]:
        values = setting.rank_metrics(method, protocol) or {}
        at_k = [name for name in values if name.startswith("rr@")]
        return pick(values, (*at_k, "mrr", "mrr_low", "mrr_high", "map", "map@10", "map@10_low", "map@10_high"))

    table, left_out = _methods(ranked, metrics)
    first = drawn[0]
    lines = {setting.label: setting.ranks(setting.methods[0], protocol) for setting in drawn}
    lines |= {first.name_of(method): first.ranks(method, protocol) for method in first.methods[1:]}
    ranks = {name: table for name, table in lines.items() if table is not None and len(table)}
    curves = rank_curves(ranks, words.unit, wide=True)
    name = "_".join(filter(None, ("rank_curves", metric_prefix(protocol).removesuffix("_"), corpus)))
    figures = [(name, f"RR@k by k: {corpus}", curves)]  # the legend names the models
    return Section(f"{words.heading}: {corpus}", text + left_out, [table], figures, subject=corpus)


def _pairs(corpus: str, settings: list[Setting]) -> Section:
    labels = [setting.scores(setting.methods[0])[1] for setting in settings]
    shares = [float((label == 1).mean()) for label in labels]
    always = [2 * share / (1 + share) for share in shares]  # F1 at recall 1 and precision equal to the share
    drawn, notice = first_of(settings)
    text = (
        f"Sampled pairs, {_range(shares, '{:.1%}')} of them duplicates; always predicting a duplicate gives F1"
        f" {_range(always, '{:.3f}')}. Each model's threshold is the best on validation pairs (the paper's Table 5):"
        f" one of 0, 0.05, ..., 1 for cosines of an encoder, a quantile of the scores for other methods.{notice}"
    )
    table, left_out = _methods(settings, lambda setting, method: pick(setting.pair_metrics(method), ON_PAIRS))
    curves = precision_recall({setting.label: setting.scores(setting.methods[0]) for setting in drawn}, wide=True)
    figures = [
        (f"precision_recall_{corpus}", f"Precision-recall curve: {corpus}", curves),
        (f"confusion_{corpus}", f"Confusion matrices: {corpus}", charts.confusion_matrices(drawn)),
    ]
    return Section(f"Pairs: {corpus}", text + left_out, [table], figures, subject=corpus)


def _range(values: list[float], form: str) -> str:
    """The one value of all settings, or the lowest and the highest."""
    low = form.format(min(values))
    high = form.format(max(values))
    return low if low == high else f"{low} to {high}"


def _methods(settings: list[Setting], metrics: Callable[[Setting, str], dict[str, float]]) -> tuple[pd.DataFrame, str]:
    """A row for each method of each setting, and a sentence if rows are left out.

    Of several methods with equal results, such as the frozen encoder of each training, the first has a row.
    """
    rows: list[dict[str, Any]] = []
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
    return pd.DataFrame(rows), EQUAL_ROWS.format(count=left_out) if left_out else ""


def _projections(settings: list[Setting]) -> Section | None:
    shown = [setting for setting in settings if setting.runs[0].tsne is not None and len(setting.runs[0].tsne)]
    drawn, notice = first_of(shown, MAX_PROJECTIONS)
    figures = []
    for number, setting in enumerate(drawn):
        table = setting.runs[0].tsne
        assert table is not None
        caption = f"{setting.label}, {setting.corpus}: duplicates share colour and marker, other reports are grey"
        figure = name_subject(charts.tsne_projection(table), f"{setting.corpus}: {setting.label}")
        figures.append((f"tsne_{number}", caption, figure))
    text = f"The largest duplicate groups of the test part, and some reports without duplicates.{notice}"
    return Section("t-SNE projection of reports", text, [], figures) if figures else None


def report_runs(paths: list[Path], folder: Path, fill: Path | None, title: str, command: str) -> None:
    """Writes the page, and prints a summary and the runs it leaves out.

    Args:
        paths: Folders that hold runs, at any depth.
        folder: Where ``report.html`` and ``report.md`` go; created if absent.
        fill: A Markdown or LaTeX file whose marked tables are replaced, see ``fill_tables``.
        title: The page's title.
        command: The command line that wrote the page, to show on it.
    """
    with stage("read the runs"):
        runs, unfinished, outdated = find_runs(paths)
    own_pages = find_own_pages(paths)
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
        said = f"left out, repeated: {run['left out']} (seed {run['seed']} of {run['model']}; newer: {run['newer']})"
        print_line(console, said)
    for place in unfinished:
        print_path(console, "left out because unfinished:", place)
    for place in own_pages:
        print_path(console, "left out because it has its own page:", place / "report.html")
    for line in outdated:
        print_line(console, f"left out: {line}")
    record(page=page, markdown=page.with_suffix(".md"), summary=summary, not_finished=[str(one) for one in unfinished])
    print_line(console, summary)
    print_path(console, "report:", page)


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
    return Section("Runs", READ + (REPEATED if len(repeated) else ""), tables)


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
            steps.append(("Resume an interrupted run:", f"gedbd train ckpt_path={last.as_posix()}"))
    trained = [setting for setting in settings if not setting.runs[0].is_baseline]
    single = [setting for setting in trained if len(setting.runs) == 1]
    if single:
        text = (
            f"{_count(len(single), 'setting')} trained with only one seed: seeds=3 shows the variation between seeds."
        )
        steps.append((text, ""))
    pair = _comparable_pair(trained)
    if pair:
        command = f"gedbd compare run={_folder(pair[1])} against={_folder(pair[0])}"
        steps.append(("Test whether two settings differ, query by query over the same seeds:", command))
    return steps


def _comparable_pair(settings: list[Setting]) -> tuple[Setting, Setting] | None:
    """The first two settings that were tested on the same pairs and queries, each alone in its folder."""
    for place, first in enumerate(settings):
        for second in settings[place + 1 :]:
            if first.same_test(second) and first.seeds == second.seeds and _folder(first) and _folder(second):
                return first, second
    return None


def _folder(setting: Setting) -> str | None:
    """The folder that holds all of a setting's runs and no other, if there is one."""
    folders = [run.folder for run in setting.runs]
    if len(folders) == 1:
        return folders[0].as_posix()
    parent = Path(os.path.commonpath(folders))
    inside = {file.parent for file in parent.rglob("predictions.parquet")}
    return parent.as_posix() if inside == set(folders) else None


def _count(number: int, noun: str, one: str = "", more: str = "") -> str:
    """``1 run``, ``2 runs``, and an empty text for 0."""
    if number == 0:
        return ""
    return f"{number} {noun}{one}" if number == 1 else f"{number} {noun}s{more}"
