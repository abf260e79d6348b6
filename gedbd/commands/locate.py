"""Find the files of a repository that a report is about, and the commits that may have induced its bug."""

import re
from functools import partial

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.configuration.command_words import literal_text
from gedbd.configuration.help import option_words
from gedbd.io.console import open_console, print_line

LIKE_AN_ID = re.compile(r"#?\d+|[A-Z][A-Z0-9_]+-\d+")


@command("locate", partial(literal_text, option="query", names=option_words("locate")))
def main(cfg: DictConfig) -> None:
    """Brings the index of the repository up to date, and prints the files and suspect commits of each report."""
    if cfg.query is not None and LIKE_AN_ID.fullmatch(str(cfg.query).strip()):
        hint = f"note: {cfg.query} looks like an id, but locate compares the words of a report: give its text, or file="
        print_line(open_console(stderr=True), hint)
    with gc_paused():
        from gedbd.corpora.bug_report import read_moment
        from gedbd.localization.locating.answering import answer, open_configured
        from gedbd.localization.locating.repository_index import AnswerLimits
        from gedbd.triage.answer import read_queries

        reports = read_queries(cfg.query, cfg.file)
        limits = AnswerLimits(cfg.top_k, cfg.max_places, cfg.top_commits, cfg.max_hunks)
        before = read_moment(cfg.before, "before")
        index = open_configured(cfg)
    answer(index, reports, limits, before, cfg.details, cfg.json)
