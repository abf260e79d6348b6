"""Fetch the changes of a tracker, and update an index with them."""

from contextlib import closing
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.commands.index import check_run_options, locate_new, opened_repository
from gedbd.configuration.command import command
from gedbd.io.command_output import record
from gedbd.io.console import QUIET, is_quiet, open_console, print_line, verbosity
from gedbd.io.locks import sole_process
from gedbd.triage.storage.index_folder import FILE, SYNC_LOCK, TRACKER

INDEX_OPTIONS = ("dataset", "encoder", "text", "backend", "run", "cache_dir", "replace")


@command("sync")
def main(cfg: DictConfig) -> None:
    """Updates an index to its tracker, and prints the changes."""
    check_run_options(cfg)
    folder = Path(cfg.index).expanduser()
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with (
        sole_process(folder / SYNC_LOCK, f"index={cfg.index} is brought up to date"),
        verbosity(QUIET if cfg.quiet else None),
    ):
        counts = _synchronise(cfg, folder)
    *changed, (_, total) = ((name.replace("_", " "), f"{count:,}") for name, count in counts.items())
    print_line(open_console(), f"{cfg.index}: {', '.join(f'{n} {name}' for name, n in changed)}; {total} reports")
    record(index=cfg.index, **counts)


def _synchronise(cfg: DictConfig, folder: Path) -> dict[str, int]:
    """Fetches changes and updates the index; returns numbers of reports."""
    from gedbd.corpora.clients.tracker_fetch import fetch_tracker
    from gedbd.service.event_table import WEBHOOK_FILE
    from gedbd.service.later_states import later_states
    from gedbd.triage.index_building import update_index

    console = open_console(quiet=is_quiet())
    repository = opened_repository(cfg)
    fetched = folder / TRACKER
    mark = _mark(folder)
    print_line(console, fetch_tracker(instantiate(cfg.tracker), str(cfg.project), fetched, cfg.max_wait_s, mark=mark))
    cfg.dataset.path = str(fetched / "pages")
    if (folder / WEBHOOK_FILE).is_file():
        OmegaConf.update(cfg, "dataset.as_created", False, force_add=True)  # titles as in the events
    cfg.dataset.name = cfg.dataset.name or str(cfg.project).rpartition("/")[2]
    options = {name: cfg.get(name) for name in INDEX_OPTIONS} | {"out": str(folder), "store": None}
    with later_states(folder, fetched) as find_later:
        changes = update_index(OmegaConf.create(options), console, find_later)
    counts = {
        "new": changes.added,
        "changed": changes.updated,
        "removed": changes.deleted,
        "marked_as_duplicates": changes.marked,
        "reports": changes.added + changes.updated + changes.unchanged + changes.kept,
    }
    if repository is not None:
        counts = {"located": locate_new(folder, repository, cfg.max_located, console)} | counts
    return counts


def _mark(folder: Path) -> str:
    """The mark of the current state of an index; empty without an index."""
    from gedbd.triage.storage.index_store import IndexStore

    if not (folder / FILE).is_file():
        return ""
    with closing(IndexStore(folder / FILE)) as store:
        return store.mark()
