"""Store a tracker's reports in an index, or update it."""

import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import command
from gedbd.io.console import open_console, print_line, print_path
from gedbd.triage.shared_store.connections import server_of


@command("index")
def main(cfg: DictConfig) -> None:
    """Adds, updates and deletes reports until the index holds those of the tracker, and prints how many."""
    if cfg.store and not OmegaConf.is_missing(cfg, "out"):
        raise ValueError("out=, store=: an index is in a folder or on a server; leave one of the two out")
    if cfg.forget is not None:
        _forget(cfg)
        return
    from gedbd.triage.index_building import update_index

    check_run_options(cfg)
    console, started = open_console(), time.perf_counter()
    changes = update_index(cfg, console)
    where, option = (server_of(cfg.store), "store=...") if cfg.store else (cfg.out, f"index={cfg.out}")
    counts = changes._asdict()
    kept = counts.pop("kept")
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    if kept:
        said += f", {kept:,} kept because they were changed elsewhere in the meantime"
    print_line(console, f"{where}: {said}, in {time.perf_counter() - started:.1f} s")
    print_path(console, "search the index:", f'gedbd search {option} "..."')


def check_run_options(cfg: DictConfig) -> None:
    """Raises ValueError if the command line gives ``run=`` and also the encoder or text, which its backtest sets."""
    given = [one for one in HydraConfig.get().overrides.task if one.lstrip("+").startswith(("encoder", "text"))]
    if cfg.run and given:
        raise ValueError(
            f"{given[0]}: run= already sets the encoder and text, from its backtest; leave one of the two out"
        )


def _forget(cfg: DictConfig) -> None:
    """Erases reports from an index. Raises ValueError, after erasing the others, if it does not hold some of them."""
    from gedbd.service.forgetting import forget_reports, forget_shared_reports
    from gedbd.triage.storage.index_folder import FILE

    others = [
        one for one in HydraConfig.get().overrides.task if one.partition("=")[0] not in ("out", "store", "forget")
    ]
    if others:
        raise ValueError(f"{others[0]}: forget= only erases reports and takes out= or store= alone; leave this out")
    given = list(cfg.forget) if OmegaConf.is_list(cfg.forget) else [cfg.forget]
    ids = [str(one) for one in given]
    if cfg.store:
        where = server_of(cfg.store)
        missing = forget_shared_reports(cfg.store, ids)
    else:
        where = cfg.out
        if not (Path(where) / FILE).is_file():
            raise ValueError(f"out={where}: no {FILE} there, so there is nothing to forget")
        missing = forget_reports(Path(where), ids)
    if missing:
        raise ValueError(f"forget={','.join(missing)}: not in {where}; what else named it was erased")
    print_line(open_console(), f"{where}: {len(ids):,} forgotten")


if __name__ == "__main__":
    main()
