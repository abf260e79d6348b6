"""The commits that last touched the places of files, by ``git blame``."""

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from gedbd.localization.locating.places import MatchedPlace
from gedbd.localization.repository.blame import stored_name
from gedbd.localization.repository.git_command import Git, MissingObjectError, decode
from gedbd.localization.repository.walk import EPOCH
from gedbd.localization.repository.walk import MAX_SECONDS as MAX_SECONDS_OF_DATE

MAX_COMMITS = 3
MAX_SECONDS = 0.4
ENTRY = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+) (\d+)\n")  # first line in this file, number of lines
# The repository's configuration may name a file of commits that blame looks through; it does not count here.
BLAME = ("blame", "--no-textconv", "--no-ignore-revs-file", "-w", "-M", "--incremental")


@dataclass(frozen=True)
class PlaceCommit:
    """A commit that last touched lines of a place.

    Attributes:
        id: Its id.
        created_at: Time of the commit, UTC.
        title: The first line of its message.
        num_lines: How many lines of the place it last touched.
    """

    id: str
    created_at: datetime
    title: str
    num_lines: int


def last_commits(
    git: Git,
    commit: str,
    places: Sequence[MatchedPlace],
    max_commits: int = MAX_COMMITS,
    seconds: float | None = MAX_SECONDS,
) -> list[tuple[PlaceCommit, ...]]:
    """The commits that last touched each of some places, the newest first.

    Neither white space nor a move within a file counts. Of a function, the comment before it does not count.

    Args:
        git: The repository.
        commit: The id of the commit that has the files.
        places: The places, those that matter most first.
        max_commits: How many commits of a place, 1 or more.
        seconds: What Git has found after this time is the answer, for the newest commits are found first: a place may
            then have fewer commits or none, and the last commit fewer lines. None for no limit.

    Raises:
        ValueError: There is no such file or line, or an object is damaged.
    """
    by_path: dict[str, list[int]] = defaultdict(list)
    for number, place in enumerate(places):
        by_path[place.path].append(number)
    end = None if seconds is None else time.monotonic() + seconds
    with ThreadPoolExecutor(min(len(by_path), os.cpu_count() or 1) or 1) as threads:
        of_paths = threads.map(
            lambda numbers: _blame(git, commit, [places[number] for number in numbers], max_commits, end),
            by_path.values(),
        )
        found = dict(zip(chain.from_iterable(by_path.values()), chain.from_iterable(of_paths), strict=True))
    return [found[number] for number in range(len(places))]


def _blame(
    git: Git, commit: str, places: Sequence[MatchedPlace], max_commits: int, end: float | None
) -> list[tuple[PlaceCommit, ...]]:
    """The commits of places of one file.

    Git goes back in time, and tells of the lines of a commit when it reaches it: it is ended as soon as each place has
    its commits.
    """
    left = None if end is None else end - time.monotonic()
    if left is not None and left <= 0:
        return [()] * len(places)
    ranges = [(place.header or place.start, place.end) for place in places]
    counts: list[Counter[str]] = [Counter() for _ in places]
    facts: dict[str, dict[bytes, bytes]] = {}  # told once of each commit
    name = stored_name(git, commit, places[0].path)
    limits = [f"-L{first},{last}" for first, last in ranges]
    id_ = ""
    try:
        with git.stream(*BLAME, *limits, commit, "--", name, seconds=left) as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # Git was ended in the middle of a line
                entry = ENTRY.fullmatch(line)
                if entry is None:
                    key, _, value = line.rstrip(b"\n").partition(b" ")
                    facts[id_].setdefault(key, value)
                    continue
                id_ = entry[1].decode("ascii")
                if id_ not in facts and all(
                    len(count) >= max_commits or count.total() > last - first
                    for count, (first, last) in zip(counts, ranges, strict=True)
                ):
                    lines.close()
                    break
                facts.setdefault(id_, {})
                start = int(entry[2])
                stop = start + int(entry[3])
                for count, (first, last) in zip(counts, ranges, strict=True):
                    num_lines = min(stop - 1, last) - max(start, first) + 1
                    if num_lines > 0:
                        count[id_] += num_lines
    except MissingObjectError:
        return [()] * len(places)  # older versions of the file are missing from a partial clone
    return [_newest(count, facts, max_commits) for count in counts]


def _newest(
    counts: Mapping[str, int], facts: Mapping[str, Mapping[bytes, bytes]], max_commits: int
) -> tuple[PlaceCommit, ...]:
    """The newest of the commits that have lines."""
    found = []
    for id_, num_lines in counts.items():
        told = facts[id_]
        if b"filename" in told:  # otherwise Git was ended before it told the whole
            date = EPOCH + timedelta(seconds=min(int(told[b"committer-time"]), MAX_SECONDS_OF_DATE))
            found.append(PlaceCommit(id_, date, decode(told[b"summary"])[0], num_lines))
    return tuple(sorted(found, key=lambda commit: commit.created_at, reverse=True)[:max_commits])
