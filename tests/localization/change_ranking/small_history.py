"""A small repository that tests of the ranking of changes share: tables, reports and what is known of them."""

import numpy as np
import pandas as pd

from gedbd.localization.repository.change_tables import ChangeTables, TableBuilder
from gedbd.localization.repository.commits import Commit, FileChange, Hunk

DAY = pd.Timedelta(days=1)
START = pd.Timestamp("2024-01-01", tz="UTC")
NAMES = ["Parser", "Printer", "Reader", "Writer", "Socket", "Router", "Filter", "Loader", "Cache", "Session"]


def hunk(old_start: int, lines: list[str], section: str = "") -> Hunk:
    """A hunk from its lines, each with its sign."""
    old = sum(line[0] != "+" for line in lines)
    new = sum(line[0] != "-" for line in lines)
    return Hunk(old_start, old, old_start, new, section, tuple(lines))


def changed(path: str, *hunks: Hunk, status: str = "M", old_path: str | None = None) -> FileChange:
    """A change of a text file."""
    old = path if old_path is None else old_path
    return FileChange(status, path, "" if status == "A" else old, False, False, hunks, False)


def commit(number: int, message: str, *files: FileChange, day: float | None = None) -> Commit:
    """The commit of a day, by default that of its number."""
    moment = START + DAY * (number if day is None else day)
    return Commit(f"{number:040x}", (), moment, message, tuple(files), False)


def tables(commits: list[Commit]) -> ChangeTables:
    """The tables of commits."""
    builder = TableBuilder("small", 100_000)
    for one in commits:
        builder.add(one)
    return builder.tables()


def added(*lines: str) -> list[str]:
    """Lines with the sign of added ones."""
    return [f"+{line}" for line in lines]


def made_commits(count: int, seed: int = 0) -> list[Commit]:
    """Commits that first add a file each, and then change a line of one of them."""
    rng = np.random.default_rng(seed)
    commits = []
    for number in range(count):
        name = NAMES[number % len(NAMES)] if number < len(NAMES) else NAMES[rng.integers(len(NAMES))]
        path = f"src/net/{name}.java"
        if number < len(NAMES):
            lines = added(f"class {name} {{", *(f"  int {name.lower()}Field{i};" for i in range(8)), "}")
            change = changed(path, hunk(0, lines), status="A")
        else:
            place = int(rng.integers(2, 9))
            lines = [f"-  int old{number};", f"+  int {name.lower()}Value{number} = handle{name}({number});"]
            change = changed(path, hunk(place, lines, f"class {name} {{"))
        commits.append(commit(number, f"Change {name} of step {number}", change))
    return commits
