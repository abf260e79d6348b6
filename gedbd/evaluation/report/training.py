"""The section of a report about training: the time of an epoch, and loss and F1 by epoch."""

import numpy as np
import pandas as pd

from gedbd.evaluation.display_names import TEXT
from gedbd.evaluation.figure_files import name_subject
from gedbd.evaluation.report import charts
from gedbd.evaluation.report.section import Section, first_of
from gedbd.evaluation.report.settings import Setting


def training(settings: list[Setting]) -> Section | None:
    """Minutes of an epoch, absolute and relative to a base setting of the same corpus; None without any training.

    The base setting of a corpus is its first one of text alone, or, without any, its first one.
    """
    if not settings:
        return None
    bases: dict[str, Setting] = {}
    for setting in sorted(settings, key=lambda setting: setting.methods[0] != TEXT):
        if np.isfinite(minutes_per_epoch(setting)):
            bases.setdefault(setting.corpus, setting)
    rows = [_row(setting, bases.get(setting.corpus)) for setting in settings]
    relative = "; ".join(f"in {corpus} to {base.label}" for corpus, base in bases.items())
    shown, notice = first_of([setting for setting in settings if any(run.epochs is not None for run in setting.runs)])
    text = f"Time of an epoch, relative (the paper's Table 4) {relative}. " if bases else ""
    figures = [
        (
            f"training_{number}",
            f"Loss and F1 by epoch: {setting.label}, {setting.corpus}",
            name_subject(charts.training_curves(setting), f"{setting.corpus}: {setting.label}"),
        )
        for number, setting in enumerate(shown)
    ]
    return Section(
        "Training", f"{text}Loss and F1 by epoch (its Figures 3 and 4).{notice}", [pd.DataFrame(rows)], figures
    )


def minutes_per_epoch(setting: Setting) -> float:
    """Mean over the epochs of all runs; NaN if they recorded no time."""
    tables = [run.epochs for run in setting.runs]
    seconds = [table["train/seconds"].mean() for table in tables if table is not None]
    return float(np.mean(seconds)) / 60 if seconds else float("nan")


def _row(setting: Setting, base: Setting | None) -> dict[str, object]:
    minutes = minutes_per_epoch(setting)
    relative = minutes / minutes_per_epoch(base) if base is not None else float("nan")
    return {"model": setting.label, "corpus": setting.corpus, "minutes per epoch": minutes, "relative": relative}
