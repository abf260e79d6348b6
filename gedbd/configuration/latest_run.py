"""``run=latest``: the newest finished run folder that a command can use."""

from collections.abc import Sequence
from pathlib import Path

from gedbd.io.console import is_quiet, open_console, print_line

OUTPUTS = Path("outputs")
LATEST = "run=latest"
# The last file of a finished run, and a further one that it has, by what writes the run.
BACKTEST = ("matching.json", "config.yaml")
LOCATE_BACKTEST = ("ranker.json", "config.yaml")
TRAINING = ("predictions.parquet", "checkpoints")
SCORED = ("predictions.parquet", "config.yaml")  # a training or a baseline
WRITTEN_BY = {
    "compare": (SCORED, "gedbd train or gedbd baseline"),
    "index": (BACKTEST, "gedbd backtest"),
    "judge": (BACKTEST, "gedbd backtest"),
    "locate": (LOCATE_BACKTEST, "gedbd locate-backtest"),
    "sync": (BACKTEST, "gedbd backtest"),
}


def with_latest_run(config_name: str, words: Sequence[str]) -> list[str]:
    """The words of a command line, in which ``run=latest`` is the newest finished run, which is printed.

    Args:
        config_name: The command; its option ``run=`` says what kind of run it takes.
        words: The options.

    Raises:
        ValueError: If there is no such run in ``outputs/``.
    """
    if LATEST not in words:
        return list(words)
    (last, other), command = WRITTEN_BY.get(config_name, (TRAINING, "gedbd train"))
    found = [file for file in OUTPUTS.rglob(last) if (file.parent / other).exists()]
    if not found:
        raise ValueError(f"{LATEST}: no finished run of {command} in {OUTPUTS}/ of the current folder")
    folder = max(found, key=lambda file: file.stat().st_mtime).parent
    if not is_quiet():
        print_line(open_console(stderr=True), f"{LATEST}: run={folder}")
    return [f"run={folder}" if word == LATEST else word for word in words]
