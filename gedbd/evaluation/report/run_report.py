"""The page about all runs in some folders."""

from datetime import datetime
from pathlib import Path

from gedbd.evaluation.report.all_sections import make_sections
from gedbd.evaluation.report.overview import next_steps, repeated_runs, summarise
from gedbd.evaluation.report.page import fill_tables, write_report
from gedbd.evaluation.report.settings import group_settings
from gedbd.evaluation.run_folders import find_own_pages, find_runs
from gedbd.io.files import write_text
from gedbd.io.json_output import record
from gedbd.io.printing import open_console, print_line, print_path
from gedbd.io.verbosity import stage


def report_runs(paths: list[Path], folder: Path, fill: Path | None, title: str, command: str) -> None:
    """Writes the page, and prints a summary and the runs it leaves out.

    Args:
        paths: Folders that hold runs, at any depth.
        folder: Where ``report.html`` and ``report.md`` go; created if absent.
        fill: A Markdown file whose marked tables are replaced, see ``fill_tables``.
        title: The page's title.
        command: The command line that wrote the page, to show on it.
    """
    with stage("read the runs"):
        runs, unfinished, outdated = find_runs(paths)
    own_pages = find_own_pages(paths)
    settings = group_settings(runs)
    sections = make_sections(settings)
    if fill:
        write_text(fill, fill_tables(fill.read_text(), sections))
    folder.mkdir(parents=True, exist_ok=True)
    summary = summarise(settings, len(unfinished), len(own_pages), len(outdated))
    page = write_report(
        folder,
        title,
        summary,
        sections,
        command=command,
        date=datetime.now().astimezone(),
        next_steps=next_steps(settings, unfinished),
    )
    console = open_console()
    for run in repeated_runs(settings):
        said = f"left out, repeated: {run['left out']} (seed {run['seed']} of {run['model']}; newer: {run['newer']})"
        print_line(console, said)
    for place in unfinished:
        print_path(console, "left out because unfinished:", place)
    for place in own_pages:
        print_path(console, "left out because it has its own page:", place / "report.html")
    for line in outdated:
        print_line(console, f"left out: {line}")
    record(page=page, markdown=page.with_suffix(".md"), summary=summary, not_finished=[str(one) for one in unfinished])
    print_line(console, summary)
    print_path(console, "report:", page)
