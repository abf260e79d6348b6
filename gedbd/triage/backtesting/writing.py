"""Writes what a backtest leaves in its run folder: tables, files that ``gedbd judge`` reads, and the page."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from gedbd.configuration.saved_options import CONFIG, read_config
from gedbd.evaluation.report.judging import Judging, Verdict
from gedbd.evaluation.report.page import write_report
from gedbd.io.files import read_object, write_text
from gedbd.io.tables import write_csv
from gedbd.triage.backtesting.backtest import Backtest
from gedbd.triage.backtesting.examples import to_judge
from gedbd.triage.backtesting.judgements import JUDGEMENTS, TO_JUDGE, read_judgements
from gedbd.triage.backtesting.page import next_step, summary, targets_markdown
from gedbd.triage.backtesting.sections import sections

PAGE = "page.json"


@dataclass(frozen=True)
class PageFacts:
    """What the page says of the backtest besides its results.

    Attributes:
        name: Name of the corpus.
        command: The command that measured, as it is typed.
        date: When, with a time zone, in ISO 8601.
        max_examples: Number of suggestions of a kind that are listed at most.
    """

    name: str
    command: str
    date: str
    max_examples: int


def keep_facts(folder: Path, facts: PageFacts) -> None:
    """Writes the facts for ``read_facts``."""
    write_text(folder / PAGE, json.dumps(asdict(facts), indent=1) + "\n")


def read_facts(folder: Path) -> PageFacts:
    """The facts that ``keep_facts`` has written. Raises ValueError, naming the file, if they are damaged."""
    found = read_object(folder / PAGE, "name", "command", "date", "max_examples")
    facts = PageFacts(*(found[name] for name in ("name", "command", "date", "max_examples")))
    try:
        is_dated = datetime.fromisoformat(facts.date).tzinfo is not None
    except (TypeError, ValueError):
        is_dated = False
    texts = isinstance(facts.name, str) and isinstance(facts.command, str)
    if not (texts and is_dated and isinstance(facts.max_examples, int) and facts.max_examples > 0):
        raise ValueError(f"{folder / PAGE} is damaged: it does not say how the backtest was run")
    return facts


def write_tables(folder: Path, name: str, backtest: Backtest) -> None:
    """Writes the tables as CSV files, and that of the targets in Markdown; ``name`` is that of the corpus."""
    for table_name, table in backtest.tables.items():
        write_csv(folder / f"{table_name}.csv", table)
    write_text(folder / "targets.md", targets_markdown(name, backtest) + "\n")


def write_to_judge(folder: Path, backtest: Backtest, max_examples: int) -> str:
    """Writes the listed suggestions with an empty column for verdicts, unless somebody has filled such a file.

    Returns:
        A sentence for the user if the file stays as it is; empty otherwise.
    """
    file = folder / TO_JUDGE
    try:
        is_changed = file.is_file() and bool(read_judgements(file).verdicts)
    except ValueError:  # a verdict is written wrongly
        is_changed = True
    if is_changed:
        return f"{file} holds verdicts and is kept: move it elsewhere to get a new list"
    write_csv(file, to_judge(backtest.tables, max_examples))
    return ""


def write_page(
    folder: Path, backtest: Backtest, facts: PageFacts, verdicts: Sequence[Verdict] = (), texts: Sequence[str] = ()
) -> Path:
    """Writes the page into the run folder and returns its path.

    Args:
        folder: The run folder.
        backtest: What was learnt and measured.
        facts: See ``PageFacts``.
        verdicts: What people said of the suggestions.
        texts: Sentences about these, for the section of the targets.
    """
    shown = os.path.relpath(folder)
    command = f"gedbd judge run={shown}"
    page = sections(backtest, facts.max_examples, command, verdicts, texts)
    judging = Judging(f"gedbd {facts.name} {facts.date}", JUDGEMENTS, shown, command, verdicts)
    has_pairs = any(len(table) for section in page if section.asks_verdicts for table in section.tables)
    return write_report(
        folder,
        f"Backtest: {facts.name}",
        summary(backtest),
        page,
        command=facts.command,
        date=datetime.fromisoformat(facts.date),
        next_steps=[next_step(backtest.matching, shown)],
        judging=judging if has_pairs else None,
        subject=f"{facts.name}: {_encoder_of(folder)}".removesuffix(": "),
    )


def _encoder_of(folder: Path) -> str:
    """Name of the encoder of a backtest; empty if its options are not there."""
    return str(read_config(folder).encoder.name) if (folder / CONFIG).is_file() else ""
