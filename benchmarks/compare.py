"""``make bench-compare``: what changed between two records of ``make bench``, the two newest if none are named.

make bench-compare RECORDS="outputs/benchmark/records/EARLIER.json outputs/benchmark/records/LATER.json"
"""

import argparse
import sys
from pathlib import Path

from measure import Row
from records import Record, read_record, two_newest
from rich.console import Console
from rich.table import Table

HEADER = ("section", "what", "measured", "earlier", "later", "change", "")
Spread = tuple[float, float] | None


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="make bench-compare")
    parser.add_argument(
        "records", nargs="*", type=Path, help="the earlier and the later record; the two newest if none"
    )
    chosen = parser.parse_args().records
    try:
        if len(chosen) not in (0, 2):
            raise ValueError(f"RECORDS: {len(chosen)} named, compare two: the earlier one first")
        first, second = chosen or two_newest()
        earlier, later = read_record(first), read_record(second)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    table = Table(*HEADER, title=f"{first.name} -> {second.name}")
    for cells in changes(earlier, later):
        table.add_row(*cells)
    console = Console()
    console.print(table)
    for line in differences(earlier, later):
        console.print(line, highlight=False, soft_wrap=True)
    return 0


def changes(earlier: Record, later: Record) -> list[tuple[str, ...]]:
    """A row of ``HEADER`` for each figure that both records have.

    Ratios are compared where there are any: what slows the machine down slows the reference beside it down too.
    """
    before = {_key(row): row for row in earlier.rows}
    return [_change(before[_key(row)], row) for row in later.rows if _key(row) in before]


def differences(earlier: Record, later: Record) -> list[str]:
    """What the table does not say: other conditions, and figures that one record lacks."""
    lines = [f"earlier: {earlier.title}", f"later: {later.title}"]
    if earlier.machine != later.machine:
        lines.append("the machines differ: compare only what is times better than something")
    if earlier.corpus != later.corpus:
        lines.append("the corpora differ")
    for name, ours, others in (("earlier", earlier, later), ("later", later, earlier)):
        theirs = {_key(row) for row in others.rows}
        alone = [f"{row.section}: {row.what}" for row in ours.rows if _key(row) not in theirs]
        if alone:
            lines.append(f"only in the {name} record: {'; '.join(alone)}")
    return lines


def _key(row: Row) -> tuple[str, str, str, str]:
    return row.section, row.what, row.unit, row.reference


def _change(first: Row, second: Row) -> tuple[str, ...]:
    if first.ratio is None or second.ratio is None:
        measured, is_rate = second.unit, second.is_rate
        before, after, spreads = first.value, second.value, (first.spread, second.spread)
    else:
        measured, is_rate = f"times better than {second.reference}", True
        before, after, spreads = first.ratio, second.ratio, (first.ratio_spread, second.ratio_spread)
    change = f"{after / before - 1:+.1%}" if before else ""
    shown = with_spread(before, spreads[0]), with_spread(after, spreads[1])
    return second.section, second.what, measured, *shown, change, verdict(*spreads, is_rate)


def verdict(before: Spread, after: Spread, is_rate: bool) -> str:
    """``better`` or ``worse`` if every later repeat is beyond every earlier one."""
    if before is None or after is None:
        return "measured once"
    if after[0] <= before[1] and before[0] <= after[1]:
        return "within the spread"
    return "better" if (after[0] > before[1]) == is_rate else "worse"


def with_spread(value: float, spread: Spread) -> str:
    """A figure with its smallest and its largest repeat."""
    return digits(value) if spread is None else f"{digits(value)} [{digits(spread[0])}, {digits(spread[1])}]"


def digits(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
