"""The paper's Table 4, duplicate question retrieval: our runs with the published numbers beside them, in percent."""

from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from gedbd.evaluation.report.report_page import markdown
from gedbd.evaluation.report.run_settings import Setting, group_settings
from gedbd.evaluation.report.section import show
from gedbd.evaluation.run_folders import find_runs
from gedbd.experiments.sweeps.paper_table import device, print_paper_table, readable
from gedbd.io.console import escape_markdown, open_console, print_line, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv
from gedbd.retrieval.protocol_words import EARLIER

TITLE = "Duplicate question retrieval, with the paper's Table 4"
METRICS = ("mrr", *(f"rr@{k}" for k in (10, 20, 30, 50, 100, 500)))
ENDS = {"mrr": ("mrr_low", "mrr_high"), "rr@10": ("rr@10_low", "rr@10_high")}
PROTOCOLS = {"candidate_sets": "candidate sets", EARLIER: "all earlier"}
TERMINAL = ("model", "ranked", "reachable", "mrr", "rr@10", "rr@100", "paper mrr", "paper rr@10", "paper rr@100")
PAPER = (
    'Columns "paper ..." are the numbers of Hazra et al. (arXiv 2309.05035), measured on Ask Ubuntu with 485 queries of'
    " the last three months of 2020 and 5,941 candidates on average. Empty: not in the paper. The paper's ranks count"
    " questions, ours duplicate groups."
)
MINILM = (
    "The encoder minilm (all-MiniLM-L6-v2) has very likely seen duplicate questions of this corpus in its own training:"
    " its model card lists Stack Exchange duplicates. Methods that use it have this advantage."
)
Rows = list[dict[str, Any]]


def write_table4(sweep_dir: Path) -> None:
    """Writes ``table4.csv`` and ``table4.md`` of all finished runs of a sweep, and prints the table.

    Args:
        sweep_dir: The sweep's folder.
    """
    console = open_console()
    try:
        runs = find_runs([sweep_dir]).finished
    except ValueError:
        print_line(console, f"table4: no table, because no run of {sweep_dir} has finished")
        return
    settings = group_settings(runs)
    table = table4(settings)
    write_csv(sweep_dir / "table4.csv", table)
    notes = [*(_corpus_note(mine) for mine in _by_corpus(settings)), PAPER]
    if any(uses_known_data(setting) for setting in settings):
        notes.append(MINILM)
    lines = [f"# {TITLE}", "", "In percent.", ""]
    for _, mine in table.groupby("ranked", sort=False):
        lines += [*markdown(show(readable(mine))), ""]
    lines += [f"- {escape_markdown(note)}" for note in notes]
    write_text(sweep_dir / "table4.md", "\n".join(lines) + "\n")
    print_paper_table(console, table[[name for name in TERMINAL if name in table]], f"{TITLE} (percent)")
    for note in notes:
        print_line(console, note)
    print_path(console, "table:", sweep_dir / "table4.md")


def table4(settings: Sequence[Setting]) -> pd.DataFrame:
    """MRR and RR@K of each setting's own method in percent, means over seeds, with the published numbers.

    Returns:
        A row for each setting among its candidate sets, followed by the paper's methods without a run and the rows
        among all earlier documents, which the paper does not have: ``corpus``, ``model``, ``seeds``, ``ranked`` (what
        against), ``queries``, ``reachable``, the metrics with the intervals of MRR and RR@10, and ``paper <metric>``.
    """
    published = read_published("table4")
    in_sets = [row for setting in settings for row in _row(setting, "candidate_sets", published)]
    among_all = [row for setting in settings for row in _row(setting, EARLIER)]
    have_run = {setting.methods[0] for setting in settings if "candidate_sets" in setting.runs[0].protocols}
    only_paper: Rows = []
    for method in [name for name in map(str, published.index) if name not in have_run]:
        row = {"corpus": "askubuntu", "model": published.loc[method, "name"], "seeds": "", "ranked": "candidate sets"}
        only_paper.append(row | _paper(published, method))
    table = pd.DataFrame([*in_sets, *only_paper, *among_all])
    first = ["corpus", "model", "seeds", "ranked", "queries", "reachable"]
    ours = [name for metric in METRICS for name in (metric, *ENDS.get(metric, ()))]
    columns = [*first, *ours, *(f"paper {metric}" for metric in METRICS)]
    return table.reindex(columns=[name for name in columns if name in table])


def uses_known_data(setting: Setting) -> bool:
    """Whether a setting's encoder has very likely been trained on duplicates of its corpus, see ``MINILM``."""
    config = setting.runs[0].config
    return config.encoder.name == "minilm" and "stackexchange" in str(config.dataset.get("_target_", ""))


def _row(setting: Setting, protocol: str, published: pd.DataFrame | None = None) -> Rows:
    """The row of a setting by one protocol; none if it was not ranked by it."""
    method = setting.methods[0]
    values = setting.rank_metrics(method, protocol)
    ranks = setting.ranks(method, protocol)
    if values is None or ranks is None:
        return []
    row: dict[str, Any] = {"corpus": setting.corpus, "model": setting.label, "seeds": str(len(setting.runs))}
    row |= {"ranked": PROTOCOLS[protocol], "queries": str(ranks["id"].nunique())}
    names = ("reachable", *METRICS, *(end for ends in ENDS.values() for end in ends))
    row |= {name: 100 * values[name] for name in names if name in values}
    return [row if published is None else row | _paper(published, method)]


def _paper(published: pd.DataFrame, method: str) -> dict[str, float]:
    known: dict[Any, Any] = published.to_dict("index").get(method, {})
    return {f"paper {metric}": known.get(metric, np.nan) for metric in METRICS}


def _by_corpus(settings: Sequence[Setting]) -> list[list[Setting]]:
    by_corpus: dict[str, list[Setting]] = {}
    for setting in settings:
        by_corpus.setdefault(setting.corpus, []).append(setting)
    return list(by_corpus.values())


def _corpus_note(settings: Sequence[Setting]) -> str:
    """What was measured on a corpus, and that it is not the paper's."""
    first = settings[0]
    encoders = ", ".join(dict.fromkeys(str(setting.runs[0].config.encoder.name) for setting in settings))
    note = (
        f"Ours: corpus {first.corpus}, encoder {encoders}, split={first.split}; {device()}, {date.today():%Y-%m-%d}."
        f" {first.corpus} is not the paper's data: do not compare its rows with the paper's one by one."
    )
    if "tiny" in encoders.split(", "):
        note += " The encoder tiny is random: its numbers only show that everything runs."
    return note


class BesidePublished(Callback):
    """Compares the finished runs of a sweep with the paper's Table 4: ``table4.csv`` and ``.md`` in its folder."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the files and prints where they are."""
        # Hydra loads this module with every command that names the callback: heavy imports wait until here.
        from gedbd.experiments.distributed import is_first

        if is_first():
            write_table4(Path(config.hydra.sweep.dir))


def read_published(item: str) -> pd.DataFrame:
    """The published numbers of one table, in percent.

    Args:
        item: ``table4``.

    Returns:
        One row a method, in the paper's order and indexed by method id: ``name`` (as the paper calls it) and one column
        a metric.
    """
    with files("gedbd.tasks.questions").joinpath("published.csv").open() as file:
        table = pd.read_csv(file)
    mine = table[table["item"] == item]
    wide = mine.pivot(index="method", columns="metric", values="value")
    names = mine.drop_duplicates("method").set_index("method")["name"]
    return wide.loc[names.index, mine["metric"].unique()].assign(name=names)
