"""A repository whose bugs are known: each module is added, broken by one commit, reported, and mended."""

import csv
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    stream = []
    for number, (date, message, path, content) in enumerate(history(num_bugs), start=1):
        stream += ["commit refs/heads/main", f"mark :{number}"]
        stream += [f"committer Ada <ada@example.org> {int(date.timestamp())} +0000", f"data {len(message)}", message]
        stream += [f"from :{number - 1}"] if number > 1 else []
        stream += [f"M 100644 inline {path}", f"data {len(content)}", content]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    run = ["git", "init", "-q", "--bare", "--initial-branch=main", str(folder)]
    subprocess.run(run, check=True, env=variables)
    run = ["git", "-C", str(folder), "fast-import", "--quiet", f"--export-marks={folder}/marks"]
    subprocess.run(run, input="\n".join([*stream, ""]), text=True, check=True, env=variables)
    marks = dict(line.split() for line in (folder / "marks").read_text().splitlines())
    return [marks[f":{number}"] for number in range(1, 3 * num_bugs + 1)]


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
