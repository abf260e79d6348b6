"""The sections of a run's page."""

import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation.report.section import Section
from gedbd.tasks.localization.published import REMARK
from gedbd.tasks.localization.result import LocalizationResult

PROTOCOL_TEXT = (
    "Of the reports that have an inducing commit before them, in the order of their dates, the first half trains and"
    " the second half tests; candidates are all changes made strictly before the report, and of equal scores the newer"
    " change comes first. RR@k is the share of reports with an inducing change among the first k (hit@k), P@k the share"
    " of the first k that are inducing. Brackets hold 95% intervals, bootstrapped over reports; differences are from"
    " {baseline} on the same reports. Methods with a random seed are means over seeds. num files and age read no"
    " content: they rank large and old commits first. Learnt rankers of content read no size and no age, yet most lines"
    " of a file come from large and old commits, whatever the report says: boosted text leaves sums over lines out. In"
    " shuffled rows each report has the text of another one: only what a ranker finds beyond them is due to the text."
)
PART_TEXT = (
    " best part: a file's score is that of its best hunk, and a commit's that of its best file, so of its best hunk."
)
COLUMNS = (
    *("method", "queries", "mrr", "mrr_low", "mrr_high", "map", "p@1", "p@3", "p@5"),
    *("rr@10", "rr@10_low", "rr@10_high"),
    *("mrr_difference", "mrr_difference_low", "mrr_difference_high", "mrr_p_value", "seeds"),
)


def sections(result: LocalizationResult, drawn: dict[str, Figure], table3: pd.DataFrame | None) -> list[Section]:
    """The sections of the page.

    Args:
        result: What the run has measured.
        drawn: The figures, by name.
        table3: See ``beside_published``; None to leave it out.
    """
    table = result.ranking
    text = PROTOCOL_TEXT.format(baseline=result.baseline.replace("_", " ")) + PART_TEXT
    curves = [
        ("mrr_by_method", "MRR of each method with its 95% interval; the line is BM25's", drawn["mrr_by_method"]),
        ("hit_curves", "Share of reports with an inducing change among the first k", drawn["hit_curves"]),
    ]
    made = [Section("Methods", text, [], curves)]
    for level in result.levels:
        rows = table[table["granularity"] == level.granularity]
        shown = rows[[name for name in COLUMNS if name in rows]]
        said = f"{len(level.task):,} reports against the {len(level.inputs.documents):,} {level.granularity}s before."
        made.append(Section(f"{level.granularity.capitalize()}s", said, [shown]))
    if table3 is not None:
        made.append(Section("Beside the paper", REMARK, [table3]))
    if "training" in drawn:
        caption = "Losses and MRR on validation by epoch"
        said = "The training of HMCBL; validation is the latest part of the first half."
        made.append(Section("Training", said, [], [("training", caption, drawn["training"])]))
    return made
