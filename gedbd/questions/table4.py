"""The paper's Table 4, duplicate question retrieval: our runs with the published numbers beside them, in percent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gedbd.evaluation.significance import mann_whitney
from gedbd.experiments.published import (
    beside,
    corpus_note,
    finished_runs,
    print_paper_table,
    read_published,
    readable,
    write_paper_page,
)
from gedbd.experiments.report.run_settings import Setting, by_corpus, group_settings, query_metrics
from gedbd.io.console import open_console
from gedbd.io.table_files import write_csv
from gedbd.retrieval.ranking_tasks import EARLIER

TITLE = "Duplicate question retrieval, with the paper's Table 4"
METRICS = ("mrr", *(f"rr@{k}" for k in (10, 20, 30, 50, 100, 500)))
ENDS = {"mrr": ("mrr_low", "mrr_high"), "rr@10": ("rr@10_low", "rr@10_high")}
CANDIDATE_SETS = "candidate_sets"
PROTOCOLS = {CANDIDATE_SETS: "candidate sets", EARLIER: "all earlier"}
TEXT_ALONE = {  # the same method without tags, for each method that reads them
    "te_network": "te",
    "word2vec_network": "word2vec_te",
    "doc2vec_network": "doc2vec_te",
    "frozen_network": "frozen_title_body",
    "te_network_modern": "te_modern",
    "questions_ranker_network": "questions_ranker",
}
P_VALUE = "p against text alone"
TERMINAL = ("model", "ranked", "reachable", "mrr", "rr@10", "rr@100", "paper mrr", "paper rr@10", "paper rr@100")
PAPER = (
    'Columns "paper ..." are the numbers of Hazra et al. (arXiv 2309.05035), measured on Ask Ubuntu with 485 queries of'
    " the last three months of 2020 and 5,941 candidates on average. Empty: not in the paper. The paper's ranks count"
    f" questions, ours duplicate groups. {P_VALUE}: Mann-Whitney U test of the reciprocal ranks of the same queries"
    " with and without tags. The paper states p < .03 for TE + network by this test, not of which values. It takes the"
    " two rankings for independent samples; gedbd compare prints a paired test beside it."
)
MINILM = (
    "The encoder minilm (all-MiniLM-L6-v2) has very likely seen duplicate questions of this corpus in its own training:"
    " its model card lists Stack Exchange duplicates. Methods that use it have this advantage."
)
Row = dict[str, Any]


def write_table4(sweep_dir: Path) -> None:
    """Writes ``table4.csv`` and ``table4.md`` of all finished runs of a sweep, and prints the table."""
    console = open_console()
    runs = finished_runs("table4", sweep_dir, console)
    if not runs:
        return
    settings = group_settings(runs)
    table = table4(settings)
    write_csv(sweep_dir / "table4.csv", table)
    notes = ["In percent.", *map(_corpus_note, by_corpus(settings).values()), PAPER]
    if any(uses_known_data(setting) for setting in settings):
        notes.append(MINILM)
    print_paper_table(console, table[[name for name in TERMINAL if name in table]], f"{TITLE} (percent)")
    tables = [readable(rows) for _, rows in table.groupby("ranked", sort=False)]
    write_paper_page(sweep_dir, "table4", TITLE, tables, notes, console)


def table4(settings: Sequence[Setting]) -> pd.DataFrame:
    """MRR and RR@K of each setting's own method in percent, means over seeds, with the published numbers.

    Returns:
        A row for each setting among its candidate sets, followed by the paper's methods without a run and the rows
        among all earlier documents, which the paper does not have: ``corpus``, ``model``, ``seeds``, ``ranked`` (what
        against), ``queries``, ``reachable``, the metrics with the intervals of MRR and RR@10, ``P_VALUE``, where the
        sweep has the method without tags too, and ``paper <metric>``.
    """
    published: dict[object, Row] = {}
    for row in read_published("questions", "table4").to_dict("records"):
        labels = {"corpus": row["corpus"], "model": row["name"], "seeds": "", "ranked": PROTOCOLS[CANDIDATE_SETS]}
        published[row["method"]] = labels | {metric: row[metric] for metric in METRICS}
    measured = [(setting.methods[0], row) for setting in settings for row in _rows(setting, settings, CANDIDATE_SETS)]
    in_sets, only_paper = beside(measured, published, METRICS)
    among_all, _ = beside(
        [(None, row) for setting in settings for row in _rows(setting, settings, EARLIER)], {}, METRICS
    )
    table = pd.DataFrame([*in_sets, *only_paper, *among_all])
    first = ["corpus", "model", "seeds", "ranked", "queries", "reachable"]
    metric_columns = [name for metric in METRICS for name in (metric, *ENDS.get(metric, ()))]
    columns = [*first, *metric_columns, P_VALUE, *(f"paper {metric}" for metric in METRICS)]
    return table.reindex(columns=[name for name in columns if name in table])


def uses_known_data(setting: Setting) -> bool:
    """Whether a setting's encoder has very likely been trained on duplicates of its corpus, see ``MINILM``."""
    config = setting.runs[0].config
    return config.encoder.name == "minilm" and "stackexchange" in str(config.dataset.get("_target_", ""))


def _rows(setting: Setting, settings: Sequence[Setting], protocol: str) -> list[Row]:
    """The row of a setting by one protocol, in a list; empty if the setting was not ranked by it."""
    method = setting.methods[0]
    ranks = setting.ranks(method, protocol)
    if ranks is None:
        return []
    values = query_metrics(ranks)
    row: Row = {"corpus": setting.corpus, "model": setting.label, "seeds": str(len(setting.runs))}
    row |= {"ranked": PROTOCOLS[protocol], "queries": str(ranks["id"].nunique())}
    row |= {P_VALUE: _tag_p_value(setting, settings, protocol)}
    names = ("reachable", *METRICS, *(end for ends in ENDS.values() for end in ends))
    return [row | {name: 100 * values[name] for name in names if name in values}]


def _tag_p_value(setting: Setting, settings: Sequence[Setting], protocol: str) -> float:
    """The p value of the reciprocal ranks with and without tags; NaN without exactly one setting without them."""
    text_alone = TEXT_ALONE.get(setting.methods[0])
    others = [other for other in settings if other.corpus == setting.corpus and other.methods[0] == text_alone]
    both = [compared.ranks(compared.methods[0], protocol) for compared in (setting, *others)]
    tables = [table for table in both if table is not None]
    if len(others) != 1 or len(tables) != 2:
        return float("nan")
    return mann_whitney(*(table.groupby("id")["mrr"].mean().to_numpy() for table in tables))


def _corpus_note(settings: Sequence[Setting]) -> str:
    """A note on what was measured on a corpus, and that it is not the paper's data."""
    warning = "is not the paper's data: do not compare its rows with the paper's one by one."
    return f"{corpus_note(settings)} {settings[0].corpus} {warning}"
