"""Tables of ``make bench`` in a Markdown page: one for each section, between two marks."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from compare import with_spread
from measure import Row

HEADER = ("section", "what", "value", "unit", "times better", "than", "")


def shown(row: Row) -> tuple[str, ...]:
    """The cells of a row."""
    ratio = "" if row.ratio is None else with_spread(row.ratio, row.ratio_spread)
    return row.section, row.what, with_spread(row.value, row.spread), row.unit, ratio, row.reference, row.note


def markdown_table(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- | --- | ---: | --- | ---: | --- | --- |"]
    lines += ["| " + " | ".join(shown(row)) + " |" for row in rows]
    return "\n".join(lines)


def check_page(page: Path, sections: Sequence[str]) -> None:
    """Refuses a page that is absent or has no place for a section, before the long work.

    Raises:
        SystemExit: With one line that says what to add.
    """
    if not page.is_file():
        raise SystemExit(f"FILL={page}: no such file")
    missing = [name for name in sections if not re.search(_block(name), page.read_text(), flags=re.DOTALL)]
    if missing:
        raise SystemExit(
            f"FILL={page}: no place for {missing[0]}; add <!-- benchmark: {missing[0]} --> and <!-- end -->"
        )


def fill_tables(text: str, found: Mapping[str, Sequence[Row]], titles: Mapping[str, str]) -> str:
    """Replaces what stands between ``<!-- benchmark: NAME -->`` and ``<!-- end -->``, for each section that was run.

    Args:
        text: A page.
        found: Rows of each section.
        titles: Corpus, machine and date of each, which come below the table.
    """
    for name, rows in found.items():
        block = f"<!-- benchmark: {name} -->\n{markdown_table(rows)}\n\n{titles[name]}.\n<!-- end -->"
        text = re.sub(_block(name), block.replace("\\", r"\\"), text, flags=re.DOTALL)
    return text


def _block(name: str) -> str:
    return rf"<!-- benchmark: {re.escape(name)} -->.*?<!-- end -->"
