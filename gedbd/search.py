"""Look for duplicates of a report: ``python -m gedbd.search index=folder "what happened"``."""

import sys
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import CONF_DIR, command, told_in_one_line
from gedbd.configuration.positional import literal_text, option_names
from gedbd.triage.answer import as_json, print_matches, read_queries
from gedbd.triage.report import Filters, check_top_k, read_moment


@command("search")
def main(cfg: DictConfig) -> None:
    """Prints the best groups for each report, with how sure that is and why."""
    queries = read_queries(cfg.query, cfg.file)
    check_top_k(cfg.top_k)
    component = None if cfg.component is None else str(cfg.component)
    created_from, created_before = (read_moment(cfg[name], name) for name in ("created_from", "created_before"))
    filters = Filters(created_from, created_before, component)
    from gedbd.triage.assembly import open_index

    index, console = open_index(cfg.index, cfg.cache_dir, cfg.get("backend")), Console()
    for report in queries:
        matches = index.search(report, cfg.top_k, filters)
        if cfg.json:
            print(as_json(report, matches, index.target), flush=True)
        else:
            print_matches(console, report, matches, index.target)
    index.close()


if __name__ == "__main__":
    with told_in_one_line():
        sys.argv[1:] = literal_text(sys.argv[1:], "query", option_names(Path(CONF_DIR) / "search.yaml"))
    main()
