"""Finds files and suspect commits of a report in the index of a repository, which a thread keeps up to date."""

import logging

from gedbd.corpora.bug_report import Report, check_report
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.localization.locating.repository_index import (
    AnswerLimits,
    IndexLimits,
    RepositoryIndex,
    open_repository,
    query_of,
)
from gedbd.service.schemas import LocateResponse
from gedbd.service.thread_pool import BackgroundWorker

log = logging.getLogger("gedbd")
JOIN_S = 1.0  # how long shutdown waits for an update


class SuspectFinder:
    """Finds the files and suspect commits of reports while a thread checks for new commits every ``update_s`` seconds.

    Errors of the repository are logged and named in each response; meanwhile the last state of the index is searched.
    """

    def __init__(self, repository: RepositoryIndex, update_s: float = 60.0) -> None:
        self.problem = "the repository is being indexed for the first time"
        self._repository = repository
        self._update_s = float(update_s)
        self.worker = BackgroundWorker("gedbd-repository", self.update)

    @property
    def statement(self) -> str:
        """How often the ranker is right, in words."""
        return self._repository.ranker.statement

    def find(self, report: Report, top_k: int, top_commits: int = 5) -> LocateResponse:
        """The files and most suspect commits of a report; none before the first update is done.

        Raises:
            ValueError: If the report has no text.
            StoreUnavailable: If a commit cannot be read.
        """
        check_report(report)
        query = query_of(report)
        try:
            located = self._repository.locate(query, AnswerLimits(top_k=top_k, top_commits=top_commits))
            answer = (
                located._asdict()
                | {"files_commit": located.commit, "skipped_files": dict(located.skipped_files)}
                | self._repository.facts(query)
            )
        except (ValueError, OSError) as error:
            raise StoreUnavailable(f"the repository cannot be read at the moment: {_cause(error)}") from error
        answer |= {"statement": self.statement, "problem": self.problem}
        return LocateResponse.model_validate(answer, from_attributes=True)

    def start(self) -> None:
        """Starts the thread that keeps the index up to date."""
        self.worker.start()

    def close(self) -> None:
        """Stops the thread; a running update is cut off when the process ends, which loses little work."""
        self.worker.stop()
        self.worker.join(JOIN_S)

    def update(self) -> float:
        """Updates the index; returns the seconds until the next update."""
        try:
            update = self._repository.update(wait=False)
        except (ValueError, OSError) as error:
            self.problem = f"the repository could not be read: {_cause(error)}"
            log.warning("suspect commits: %s", self.problem)
            return self._update_s
        self.problem = ""
        for warning in update.warnings:
            log.warning("suspect commits: %s", warning)
        if update.num_added or update.num_removed:
            log.info("suspect commits: %d added, %d removed", update.num_added, update.num_removed)
        return self._update_s


def _cause(error: ValueError | OSError) -> str:
    """The message of an error, without the local paths that an OSError names."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def open_suspects(
    repo: str | None,
    run: str | None,
    cache_dir: str,
    revision: str = "HEAD",
    index: str | None = None,
    max_files: int = 1_000,
    max_diff_chars: int = 20_000,
    update_s: float = 60.0,
) -> SuspectFinder | None:
    """Opens the index of a repository for the service; None without a repository.

    Args:
        repo: A work tree, a folder in one, or a bare repository.
        run: Folder of a ``gedbd locate-backtest``; ValueError without a repository.
        cache_dir: Where the index is kept, unless ``index`` names a folder.
        revision: The branch, tag or commit whose history is indexed.
        index: Another folder for the index.
        max_files: Maximum number of indexed files per commit.
        max_diff_chars: Maximum number of indexed characters per diff.
        update_s: Seconds between checks for new commits.
    """
    if repo is None and run is None:
        return None
    limits = IndexLimits(max_files, max_diff_chars)
    return SuspectFinder(open_repository(repo, cache_dir, index, str(revision), run, limits), update_s)
