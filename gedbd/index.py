"""Store a tracker's reports in an index, or update it."""

import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.printing import open_console, print_line, print_path


@command("index")
def main(cfg: DictConfig) -> None:
    """Adds, updates and deletes reports until the index holds those of the tracker, and prints how many."""
    from gedbd.triage.assembly import update_index

    given = [one for one in HydraConfig.get().overrides.task if one.lstrip("+").startswith(("encoder", "text"))]
    if cfg.run and given:
        raise ValueError(
            f"{given[0]}: run= already sets the encoder and text, from its backtest; leave one of the two out"
        )
    console, started = open_console(), time.perf_counter()
    changes = update_index(cfg, Path(cfg.out), console)
    counts = changes._asdict()
    kept = counts.pop("kept")
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    if kept:
        said += f", {kept:,} kept because they were changed elsewhere in the meantime"
    print_line(console, f"{cfg.out}: {said}, in {time.perf_counter() - started:.1f} s")
    print_path(console, "search the index:", f'gedbd search index={cfg.out} "..."')


if __name__ == "__main__":
    main()
