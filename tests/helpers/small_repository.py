"""A repository whose bugs are known: each module is added, broken by one commit, reported, and mended."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

from git_repository import FastImport

NAMES = [
    first + second for first in ("Bar", "Cor", "Den", "Fal", "Gul", "Hon") for second in ("ber", "dak", "lin", "tov")
]
START = datetime(2021, 1, 1, tzinfo=UTC)


def code(name: str, result: str) -> str:
    lines = [f"class {name}Reader {{", f"    int count{name}(int limit) {{", f"        return {result};", "    }", "}"]
    return "\n".join([*lines, ""])


def history(num_bugs: int) -> list[tuple[datetime, str, str, str]]:
    """Date, message, path and content of each commit: of bug n those of number 3n, 3n + 1 (inducing) and 3n + 2."""
    commits = []
    for number, name in enumerate(NAMES[:num_bugs]):
        day = START + timedelta(days=30 * number)
        path = f"src/{name}Reader.java"
        commits.append((day, f"Add {name}Reader", path, code(name, "limit")))
        commits.append((day + timedelta(days=1), f"Simplify {name}Reader", path, code(name, "limit - 1")))
        commits.append((day + timedelta(days=9), f"Fix #{number + 1}: count all", path, code(name, "limit")))
    return commits


def make_repository(folder: Path, num_bugs: int = len(NAMES)) -> list[str]:
    """A bare repository; gives the ids of its commits."""
    made = FastImport()
    for date, message, path, content in history(num_bugs):
        made.commit(message, [(path, content.encode())], date=int(date.timestamp()))
    return made.write(folder)


def write_reports(path: Path, num_bugs: int = len(NAMES), num_others: int = 3) -> None:
    """The tracker's export: a report of each bug two days after the inducing commit, and others that nothing fixes."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Issue_id", "Title", "Description", "Created_time", "Url", "Duplicated_issue"])
        for number, name in enumerate(NAMES[:num_bugs]):
            date = START + timedelta(days=30 * number + 3)
            text = f"count{name} of {name}Reader returns one too few."
            url = f"https://bugs.example.org/{number + 1}"
            writer.writerow([number + 1, f"{name}: the last line is lost", text, date.isoformat(), url, ""])
        for number in range(num_others):
            date = START + timedelta(days=30 * number + 4)
            writer.writerow([900 + number, "A wish", "Colours would be nice.", date.isoformat(), "", ""])


def write_published(path: Path, commits: list[str]) -> None:
    """The same bugs as Ye et al. publish theirs; ``commits`` are the ids of the repository."""
    rows = []
    for number, name in enumerate(NAMES[: len(commits) // 3]):
        seconds = int((START + timedelta(days=30 * number + 3)).timestamp())
        values = {
            "bug_id": number + 1,
            "summary": f"Bug {number + 1} {name}: the last line is lost",
            "description": f"count{name} of {name}Reader returns one too few.",
            "report_timestamp": seconds,
            "commit": commits[3 * number + 2][:7],
            "files": f"src/{name}Reader.java",
        }
        columns = "".join(f'<column name="{column}">{value}</column>' for column, value in values.items())
        rows.append(f'<table name="demo">{columns}</table>')
    path.write_text(f"<pma_xml_export><database>{''.join(rows)}</database></pma_xml_export>")
