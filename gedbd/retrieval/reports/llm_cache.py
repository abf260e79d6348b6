"""A cache of a language model's answers about pairs of reports: one SQLite file for all models."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gedbd.io.files import connect_database
from gedbd.text.token_cache import cache_folder

FILE = "llm_answers.sqlite"
# An answer that cannot be read has no score; it is kept, since the same question would be answered alike.
TABLE = "answers (question TEXT, pair TEXT, score REAL, PRIMARY KEY (question, pair))"


class AnswerCache:
    """Scores by the content of what was asked; concurrent processes may share the file.

    Args:
        cache_dir: Folder of the file, made if absent.
        question: A hash of everything but the reports that an answer depends on.

    Raises:
        ValueError: If the cache cannot be used, as in the methods.
    """

    def __init__(self, cache_dir: str | Path, question: str) -> None:
        self.file = cache_folder(cache_dir) / FILE
        self.question = question
        with self._open():  # damage is found before anything is sent
            pass

    def read(self, pairs: Sequence[str]) -> dict[str, float | None]:
        """The stored scores of those pairs that have been asked about, by the pair's hash."""
        found: dict[str, float | None] = {}
        with self._open() as cache:
            for pair in pairs:
                # One at a time: SQLite limits the number of parameters.
                row = cache.execute(
                    "SELECT score FROM answers WHERE question = ? AND pair = ?", (self.question, pair)
                ).fetchone()
                if row is not None:
                    found[pair] = row[0]
        return found

    def write(self, scores: Mapping[str, float | None]) -> None:
        """Stores scores by the pair's hash; None for an answer that cannot be read."""
        with self._open() as cache:
            rows = [(self.question, pair, score) for pair, score in scores.items()]
            cache.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", rows)
            cache.commit()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect_database(self.file, timeout=60)) as cache:
                cache.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
                yield cache
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.file} cannot be used ({error}): delete it, or set cache_dir= to another folder"
            ) from error


def content_hash(content: object) -> str:
    """A hash of plain values."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
