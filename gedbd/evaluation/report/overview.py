"""The overview of a report: runs that were read or left out, and next steps."""

import os
from pathlib import Path

import pandas as pd

from gedbd.evaluation.report.section import Section
from gedbd.evaluation.report.settings import Setting

READ = "Each run folder holds the resolved configuration (config.yaml) and the package versions (versions.json)."
REPEATED = (
    " The second table lists repeated runs, which are left out: for each setting and seed, only the newest run counts."
)


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
