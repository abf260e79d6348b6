"""Reading a made-up git history of the size of a large Java project's: commits a second, and the memory it takes."""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import Row, peak_mb, seconds

COMMITS, FILES, LINES = 29_000, 4_000, 120
WORDS = 20_000
MERGE_EVERY, RENAME_EVERY = 12, 150
FIRST_SECOND, SECONDS_BETWEEN_COMMITS = 1_000_000_000, 9_000
SECTION = "repository"


def main() -> list[Row]:
    """Writes the history, and reads it twice, each time in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        spent = seconds(lambda: write_repository(Path(folder) / "made.git"))
        size_mb = sum(file.stat().st_size for file in Path(folder).rglob("*.pack")) / 1e6
        first = _measured_apart(folder)
        cache_mb = (Path(folder) / "cache" / "commits.sqlite").stat().st_size / 1e6
        second = _measured_apart(folder)
    rate = COMMITS / first["seconds"]
    note = f"{first['files']:,} files, {first['hunks']:,} hunks, {size_mb:,.0f} MB packed; written in {spent:.0f} s"
    ratio = first["seconds"] / second["seconds"]
    return [
        Row(SECTION, f"reading {COMMITS:,} commits", first["seconds"], "s", note=f"{rate:,.0f} commits/s; {note}"),
        Row(SECTION, "peak memory", first["peak_mb"], "MB", note=f"git itself {first['git_mb']:,.0f} MB"),
        Row(SECTION, "again, from the cache", second["seconds"], "s", "without", ratio, f"{cache_mb:,.0f} MB of cache"),
        Row(SECTION, "peak memory of that", second["peak_mb"], "MB"),
    ]


def _measured_apart(folder: str) -> dict[str, float]:
    command = [sys.executable, "-c", "from repository import measured; measured()", folder]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measured() -> None:
    """Reads the history in the folder that the command line names, and prints what that took."""
    from gedbd.localization.repository.commit_history import History
    from gedbd.localization.repository.git_command import Git

    folder = Path(sys.argv[1])
    counts = {"commits": 0, "files": 0, "hunks": 0}

    def read() -> None:
        for commit in History(Git(folder / "made.git"), cache_dir=folder / "cache"):
            counts["commits"] += 1
            counts["files"] += len(commit.files)
            counts["hunks"] += sum(len(file.hunks) for file in commit.files)

    spent = seconds(read)
    assert counts["commits"] == COMMITS
    git_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps(counts | {"seconds": spent, "peak_mb": peak_mb(), "git_mb": git_mb}))


def write_repository(folder: Path, commits: int = COMMITS, seed: int = 0) -> None:
    """A bare repository of so many commits, one in twelve a merge."""
    subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(folder)], check=True)
    command = ["git", "-C", str(folder), "fast-import", "--quiet", "--force"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as importer:
        assert importer.stdin is not None
        for part in _commits(commits, np.random.default_rng(seed)):
            importer.stdin.write(part)
        importer.stdin.close()
        assert importer.wait() == 0


def _commits(commits: int, rng: np.random.Generator) -> Iterator[bytes]:
    """The stream of ``git fast-import``. The first commit adds all files; the others edit some lines of a few."""
    files = [[_line(rng) for _ in range(LINES)] for _ in range(FILES)]
    paths = [f"src/main/java/org/example/part{row % 40}/Class{row}.java" for row in range(FILES)]
    for number in range(1, commits + 1):
        yield _header(number, rng)
        if number == 1:
            changed = list(range(FILES))
        else:
            # A few files change often, as in real projects.
            changed = sorted(set(np.minimum(rng.zipf(1.3, size=rng.geometric(0.45)), FILES) - 1))
        for row in changed:
            if number % RENAME_EVERY == 0:
                yield f"D {paths[row]}\n".encode()
                paths[row] = f"src/main/java/org/example/moved{number}/Class{row}.java"
            _edit(files[row], rng)
            content = "\n".join(files[row]).encode()
            yield f"M 100644 inline {paths[row]}\ndata {len(content)}\n".encode() + content + b"\n"


def _header(number: int, rng: np.random.Generator) -> bytes:
    message = f"Change {number}: {_line(rng).strip()}\n\nFixes issue {rng.integers(number) + 1}.".encode()
    date = FIRST_SECOND + number * SECONDS_BETWEEN_COMMITS
    head = f"commit refs/heads/main\nmark :{number}\ncommitter A <a@example.org> {date} +0000\ndata {len(message)}\n"
    parents = f"\nfrom :{number - 1}\n" if number > 1 else "\n"
    if number > 9 and number % MERGE_EVERY == 0:
        parents += f"merge :{number - 5}\n"
    return head.encode() + message + parents.encode()


def _edit(lines: list[str], rng: np.random.Generator) -> None:
    """One to about five neighbouring lines are written again, at one or two places."""
    for _ in range(rng.integers(1, 3)):
        start = int(rng.integers(len(lines)))
        lines[start : start + int(rng.geometric(0.4))] = [_line(rng) for _ in range(rng.geometric(0.4))]


def _line(rng: np.random.Generator) -> str:
    return "        " + " ".join(f"word{rank}" for rank in np.minimum(rng.zipf(1.2, size=5), WORDS))
