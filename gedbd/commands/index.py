"""Store a tracker's reports in an index, or update it."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.command import command, typed_words
from gedbd.io.console import open_console, print_line, print_path, printable_line
from gedbd.triage.storage.index_folder import LOCATED
from gedbd.triage.storage.postgres_connections import server_of

if TYPE_CHECKING:
    from gedbd.localization.locating.repository_index import RepositoryIndex

MAX_SHOWN_FILES = 3  # of a new report
MAX_SHOWN_TITLE = 80  # characters


@command("index")
def main(cfg: DictConfig) -> None:
    """Updates the index to the reports of the tracker, and prints their numbers."""
    if cfg.store and not OmegaConf.is_missing(cfg, "out") and cfg.out is not None:
        raise ValueError("out=, store=: an index is in a folder or on a server; leave one of the two out")
    if cfg.forget is not None:
        _forget(cfg)
        return
    from gedbd.triage.index_building import update_index

    check_run_options(cfg)
    repository = opened_repository(cfg)
    console, started = open_console(), time.perf_counter()
    changes = update_index(cfg, console)
    location, option = (server_of(cfg.store), "store=...") if cfg.store else (cfg.out, shlex.quote(f"index={cfg.out}"))
    names = ("added", "updated", "unchanged", "deleted")
    summary = ", ".join(f"{getattr(changes, name):,} {name}" for name in names)
    if changes.kept:
        summary += f", {changes.kept:,} kept because other processes changed them"
    print_line(console, f"{location}: {summary}, in {time.perf_counter() - started:.1f} s")
    if repository is not None:
        locate_new(Path(cfg.out), repository, cfg.max_located, console)
    print_path(console, "search the index:", f'gedbd search {option} "..."')


def check_run_options(cfg: DictConfig) -> None:
    """Raises ValueError if the command line sets ``run=`` and also the encoder or text."""
    options = [word for word in typed_words() if word.lstrip("+").startswith(("encoder", "text"))]
    if cfg.run and options:
        raise ValueError(
            f"{options[0]}: run= already sets the encoder and text, from its backtest; leave one of the two out"
        )


def opened_repository(cfg: DictConfig) -> "RepositoryIndex | None":
    """The index of the repository ``repo=``, or None.

    Raises:
        ValueError: If it cannot be used, or the reports are on a server.
    """
    if cfg.repo is None and cfg.locate_run is None:
        return None
    from gedbd.localization.locating.repository_index import open_repository  # slow import

    if cfg.repo is not None and cfg.get("store"):
        raise ValueError("repo=, store=: files are located for an index in a folder: give out= instead of store=")
    if not isinstance(cfg.max_located, int) or cfg.max_located < 1:
        raise ValueError(f"max_located={cfg.max_located} must be a whole number of at least 1")
    repository = open_repository(cfg.repo, cfg.cache_dir, revision=str(cfg.revision), run=cfg.locate_run)
    repository.git.resolve(repository.revision)  # fails before reports are encoded
    return repository


def locate_new(folder: Path, repository: "RepositoryIndex", max_located: int, console: Console) -> int:
    """Locates the newest open reports of an index, prints the first files of the new ones, and returns their number."""
    from gedbd.localization.locating.answering import print_notices
    from gedbd.triage.located_reports import locate_reports

    answers = locate_reports(folder, repository, max_located)
    print_notices(open_console(stderr=True), answers.warnings)
    summary = f"{len(answers.new):,} located, {answers.num_kept:,} kept"
    if answers.num_older:
        summary += f", {answers.num_older:,} older ones left out by max_located={max_located}"
    print_line(console, f"{folder / LOCATED}: {summary}")
    for report, located in answers.new:
        names = ", ".join(file.path for file in located.files[:MAX_SHOWN_FILES]) or "no file"
        print_line(
            console, f"  {report.issue_id} {printable_line(report.title)[:MAX_SHOWN_TITLE]}: {printable_line(names)}"
        )
    return len(answers.new)


def _forget(cfg: DictConfig) -> None:
    """Erases reports from an index; raises ValueError, after erasing the others, for unknown reports."""
    from gedbd.service.forgetting import forget_reports
    from gedbd.triage.storage.index_folder import FILE

    words = [word for word in typed_words() if word.partition("=")[0] not in ("out", "store", "forget")]
    if words:
        raise ValueError(f"{words[0]}: forget= only erases reports and takes out= or store= alone; leave this out")
    ids = [str(word) for word in (cfg.forget if OmegaConf.is_list(cfg.forget) else [cfg.forget])]
    location = server_of(cfg.store) if cfg.store else cfg.out
    if not cfg.store and not (Path(location) / FILE).is_file():
        raise ValueError(f"out={location}: no {FILE} there, so there is nothing to forget")
    missing = forget_reports(cfg.store or Path(location), ids)
    if missing:
        raise ValueError(f"forget={','.join(missing)}: not in {location}; other data that named it was erased")
    print_line(open_console(), f"{location}: {len(ids):,} forgotten")
