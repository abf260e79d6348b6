"""A small repository that tests of localization share: commits, their tables, and reports that they fix."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Documents
from gedbd.corpora.relevance import Links
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_training import ChangeTrainingOptions
from gedbd.localization.repository.commits import ChangeTables, Commit, FileChange, Hunk, change_tables

DAY = pd.Timedelta(days=1)
START = pd.Timestamp("2024-01-01", tz="UTC")
NAMES = ["Parser", "Printer", "Reader", "Writer", "Socket", "Router", "Filter", "Loader", "Cache", "Session"]
NUM_COMMITS, NUM_REPORTS, NUM_TRAIN = 100, 46, 28
FAST = ChangeTrainingOptions(num_seeds=1, rounds=12)


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
    return change_tables("small", commits, 100_000)


def history_of(commits: list[Commit]) -> ChangeHistory:
    """Commits as they are ranked."""
    built = tables(commits)
    history = ChangeHistory()
    history.add(built.commits.table, built.files.table)
    return history


def links(pairs: Iterable[tuple[int, int]], num_reports: int, num_documents: int, made_at=pd.NaT) -> Links:
    """Links of reports to documents, of which one date or a list of dates says when they were made."""
    table = pd.DataFrame(pairs, columns=["query", "document"])
    return Links(table.assign(source="test", made_at=made_at), num_reports, num_documents)


def linked(links: Links, documents: Documents) -> list[tuple[int, str]]:
    """Each report's row with the id of a document that it is linked to."""
    return [(int(query), documents.ids[document]) for query, document in links.pairs.T]


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


def made_corpus() -> ChangeCorpus:
    """Reports that name the class whose last change but one induced their bug; a later change of the class fixes it."""
    rng = np.random.default_rng(1)
    built = tables(made_commits(NUM_COMMITS))
    paths = built.commits.table["paths"]
    reports, fixing, inducing = [], [], []
    for number in range(NUM_REPORTS):
        before = 40 + number
        path = paths[int(rng.integers(before))]
        earlier = [row for row in range(before) if paths[row] == path]
        later = [row for row in range(before, NUM_COMMITS) if paths[row] == path]
        name = path.rpartition("/")[2].removesuffix(".java")
        fixing.append(later[0] if later else NUM_COMMITS - 1)
        inducing.append(earlier[-1])
        reports.append((str(number), f"{name} broken", f"calls handle{name} often", START + DAY * (before - 0.5)))
    table = pd.DataFrame(reports, columns=["id", "title", "description", "created_at"])
    fixing, inducing = (links(enumerate(rows), NUM_REPORTS, NUM_COMMITS) for rows in (fixing, inducing))
    corpus = Corpus.of_table("small", table, np.arange(NUM_REPORTS))
    return ChangeCorpus("small", corpus, *built[:3], fixing, {"commit": inducing})
