"""Find the files of a repository that a report is about, and the commits that may have induced its bug."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.configuration.locations import CONF_DIR
from gedbd.configuration.positional import literal_text, option_names

NAMES = option_names(Path(CONF_DIR) / "locate.yaml")


@command("locate", partial(literal_text, option="query", names=NAMES))
def main(cfg: DictConfig) -> None:
    """Brings the index of the repository up to date, and prints the files and suspect commits of each report."""
    with gc_paused():
        from gedbd.triage.answer import read_queries
        from gedbd.triage.bug_report import read_moment
        from gedbd.triage.locating.answering import Shown, answer, open_configured
        from gedbd.triage.locating.repository_index import AnswerLimits

        reports = read_queries(cfg.query, cfg.file)
        limits = AnswerLimits(cfg.top_k, cfg.max_places, cfg.top_commits, cfg.max_hunks)
        shown = Shown(limits, read_moment(cfg.before, "before"), cfg.details, cfg.json)
        index = open_configured(cfg)
    answer(index, reports, shown)


if __name__ == "__main__":
    main()
