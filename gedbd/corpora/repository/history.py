"""Read the history of a repository, commit by commit."""

from collections.abc import Generator, Iterator, Set
from contextlib import closing
from pathlib import Path

from gedbd.corpora.repository.commit_cache import CommitCache
from gedbd.corpora.repository.commits import Commit, Limits
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.objects import Losses, ReadCommit, read_commits
from gedbd.corpora.repository.walk import walk_history
from gedbd.io.progress import item_progress

DEFAULT_LIMITS = Limits()


def read_history(
    path: str | Path, revision: str = "HEAD", cache_dir: str | Path | None = None, limits: Limits = DEFAULT_LIMITS
) -> "History":
    """The history of a repository that ends at a revision.

    Args:
        path: A work tree, a folder in one, or a bare repository.
        revision: Name of the last commit.
        cache_dir: Folder of the cache; None for none. A second reading asks Git for new commits only.
        limits: How much of a commit is kept.

    Raises:
        ValueError: Git is missing or too old; there is no such repository or revision; the repository has no commits,
            belongs to another user, is a shallow clone or lacks an object.
    """
    return History(Git(path), revision, cache_dir, limits)


class History:
    """The commits of a history in chronological order; parents before their children.

    Commits are read while they are iterated over, so that one of them is in memory at a time. All that can be reached
    from the revision are there. Merges are compared with their first parent. Renames are found by content, half of
    which must be equal, unless a commit both adds and deletes more than 1,000 files.

    Attributes:
        git: The repository.
        walked: The ids and dates of the commits.
        warnings: What was replaced, left out or guessed: dates from the start, the others up to the commit reached.
    """

    def __init__(self, git: Git, revision: str, cache_dir: str | Path | None, limits: Limits) -> None:
        self.git = git
        self._walk = walk_history(git, revision)
        self.walked = self._walk.commits
        self._cache_dir = cache_dir
        self._limits = limits
        self._losses = Losses()
        self._cache_warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.walked)

    def __iter__(self) -> Iterator[Commit]:
        """The commits.

        Raises:
            ValueError: An object is missing or damaged, or the cache cannot be used.
        """
        self._losses = Losses()
        self._cache_warnings = ()
        with item_progress("commits") as progress, closing(self._read()) as reads:
            bar = progress.add_task(f"reading {self.git.path.resolve().name}", total=len(self))
            for read in reads:
                self._losses = Losses(*map(sum, zip(self._losses, read.losses, strict=True)))
                yield read.commit
                progress.advance(bar)

    def leave_out(self, ids: Set[str]) -> None:
        """Leaves out commits, such as those that were read before; dates and warnings about them stay."""
        self.walked = [walked for walked in self.walked if walked.id not in ids]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each kind of change that was made to the history."""
        limits = self._limits
        told = {
            f"files beyond the first {limits.max_files:,} of their commit are left out": self._losses.dropped_files,
            f"changed files are cut: a line has {limits.max_line_chars:,} characters at most, a file "
            f"{limits.max_file_chars:,}, a commit {limits.max_commit_chars:,}": self._losses.cut_files,
            "changed lines are not UTF-8 and are read as Windows-1252": self._losses.guessed_lines,
            "messages are not in the encoding that they name": self._losses.guessed_messages,
            f"messages are cut at {limits.max_message_bytes:,} bytes": self._losses.cut_messages,
        }
        losses = tuple(f"{count:,} {what}" for what, count in told.items() if count)
        return self._walk.warnings + losses + self._cache_warnings

    def _read(self) -> Generator[ReadCommit, None, None]:
        if self._cache_dir is None:
            yield from read_commits(self.git, self.walked, self._limits)
            return
        with CommitCache(self._cache_dir, self._limits) as cache:
            if cache.was_damaged:
                self._cache_warnings = (f"{cache.file} was damaged: the commits are read again",)
            yield from self._read_with(cache)

    def _read_with(self, cache: CommitCache) -> Generator[ReadCommit, None, None]:
        """Commits from the cache, or else from the repository."""
        known = cache.known([walked.id for walked in self.walked])
        missing = [walked for walked in self.walked if walked.id not in known]
        num_damaged = 0
        with closing(read_commits(self.git, missing, self._limits)) as fresh:
            for walked in self.walked:
                read = cache.get(walked) if walked.id in known else next(fresh)
                if read is None:
                    num_damaged += 1
                    self._cache_warnings = (f"{cache.file}: {num_damaged:,} damaged commits are read again",)
                    (read,) = read_commits(self.git, [walked], self._limits)
                    cache.add(read)
                elif walked.id not in known:
                    cache.add(read)
                yield read
