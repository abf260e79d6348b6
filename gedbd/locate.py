"""Find the commits of a repository that may have induced the bug of a report."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command, gc_paused
from gedbd.configuration.locations import CONF_DIR
from gedbd.configuration.positional import literal_text, option_names

NAMES = option_names(Path(CONF_DIR) / "locate.yaml")


@command("locate", partial(literal_text, option="query", names=NAMES))
def main(cfg: DictConfig) -> None:
    """Brings the index of the repository up to date, and prints the most suspect commits for each report."""
    with gc_paused():
        from gedbd.triage.locating.assembly import open_configured
        from gedbd.triage.locating.printing import as_json, print_changes, print_notices
        from gedbd.triage.locating.reports import check_max_hunks, query_of, read_reports
        from gedbd.triage.report import check_top_k, read_moment

        reports = read_reports(cfg.query, cfg.file)
        check_top_k(cfg.top_k)
        check_max_hunks(cfg.max_hunks)
        before = read_moment(cfg.before, "before")
        index, statement = open_configured(cfg)
    console = Console(highlight=False)
    notices = Console(stderr=True, highlight=False)
    print_notices(notices, index.update().warnings)
    for report in reports:
        query, warnings = index.encoded(query_of(report, before))
        changes = index.locate(query, cfg.top_k, cfg.max_hunks)
        if cfg.json:
            print(as_json(report, changes, index.facts(query) | {"statement": statement}), flush=True)
        else:
            print_changes(console, report, changes, index.facts(query), statement)
        print_notices(notices, warnings)


if __name__ == "__main__":
    main()
