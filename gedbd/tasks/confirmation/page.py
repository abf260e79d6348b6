"""The sections of a run's page."""

import pandas as pd
from matplotlib.figure import Figure

from gedbd.corpora.urls import with_urls
from gedbd.evaluation.report.section import Section
from gedbd.tasks.confirmation.figures import decile_table
from gedbd.tasks.confirmation.result import ConfirmationResult

MAX_PENDING = 50
METHODS_TEXT = (
    "The target is log10 of the hours from the anchor, the later document of a duplicate pair, to its link. Spearman's"
    " rho compares the orders of predicted and true times. The difference in RMSE is against the median of the training"
    " times; below 0 is better. Brackets hold 95% intervals, bootstrapped over duplicate groups. The first method has"
    " the best rho on validation, which did not see the test part. Methods that read text, network or pair are given"
    " both documents of the pair, as in the paper; those that read question alone use only what was known when the"
    " question was asked."
)
NETWORK_TEXT = (
    "The same model with the vectors of tags and without. Mann-Whitney's test compares the predicted times of the two:"
    " it tells whether one predicts longer times, not whether it ranks better (the ranks of two complete rankings are"
    " the same numbers, so that a test of these gives p = 1). Whether the network ranks better is what the interval of"
    " the difference in rho tells."
)
PENDING_TEXT = (
    "The test anchors with the longest predicted time, for a moderator to look at first; pending.csv has all. The"
    " interval from and to holds 80% of the true times if the residuals are as on validation."
)
PUBLISHED_TEXT = (
    "The paper's Table 7 beside the same models here. The corpora and the encoder differ (askubuntu until 2021, 3,756"
    " test pairs, multi-qa-MiniLM-L6-cos-v1), so the numbers are not a replication."
)


def sections(result: ConfirmationResult, drawn: dict[str, Figure], table7: pd.DataFrame | None) -> list[Section]:
    """The sections of the page.

    Args:
        result: What the run has measured.
        drawn: The figures, by name.
        table7: See ``beside_published``; None to leave it out.
    """
    pending = result.pending.head(MAX_PENDING).drop(columns="url")
    shown = with_urls(pending, result.corpus.reports, ("id",))
    best = result.best.replace("_", " ")
    deciles = decile_table(result.predictions[result.best].test, result.data.y[result.data.test])
    important = [name for name in drawn if name.startswith("importance_")]
    made = [
        Section(
            "Methods", METHODS_TEXT, [result.table], [_figure(drawn, "rho_by_method", "Spearman's rho of each method")]
        ),
        Section("Text and tag network", NETWORK_TEXT, [result.network]),
        Section("Beside the paper", PUBLISHED_TEXT, [table7 if table7 is not None else pd.DataFrame()]),
        Section(
            "Predicted and true times",
            f"The method {best} on the test anchors, in log10 of the hours.",
            [deciles],
            [
                _figure(drawn, "predicted_against_true", "Predicted against true time"),
                _figure(drawn, "calibration", "Mean and median of the true times by decile of the predicted ones"),
            ],
        ),
        Section(
            "Importance of features",
            "How much rho on validation falls when the values of a feature are shuffled.",
            [],
            [_figure(drawn, name, name.replace("_", " ")) for name in important],
        ),
        Section("Longest waits first", PENDING_TEXT, [shown]),
    ]
    return [section for section in made if section.figures or any(len(table) for table in section.tables)]


def _figure(drawn: dict[str, Figure], name: str, caption: str) -> tuple[str, str, Figure]:
    return name, caption, drawn[name]
