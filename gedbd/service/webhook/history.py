"""The latest state that GitHub has told of each issue and comment: events may come late, twice and out of order."""

from datetime import datetime

from gedbd.service.webhook.database import WebhookFile


class History:
    """When each issue and comment was changed last, which are gone, and which comments have linked what.

    Args:
        file: Where that is kept.
    """

    def __init__(self, file: WebhookFile) -> None:
        self.file = file

    def is_outdated(self, name: str, updated_at: datetime | None) -> bool:
        """Whether a later state is known.

        GitHub tells times in whole seconds, so of states with equal times the last to come counts. What is
        gone comes back with a later time only; what was told last before a deletion bears the same time.

        Args:
            name: "issue 12" or "comment 345".
            updated_at: When GitHub says that it was changed.
        """
        rows = self.file.ask("SELECT updated_at, gone FROM versions WHERE name = ?", name)
        if not rows:
            return False
        known, gone = rows[0]
        if updated_at is None:
            return bool(gone)
        moment = updated_at.timestamp()
        return bool(moment <= known if gone else moment < known)

    def remember(self, name: str, updated_at: datetime | None, gone: bool = False) -> None:
        """Keeps that this state was taken over; the time kept for a name never goes back."""
        query = (
            "INSERT INTO versions VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET updated_at = max(updated_at, excluded.updated_at), gone = excluded.gone"
        )
        self.file.ask(query, name, updated_at.timestamp() if updated_at else 0.0, int(gone))

    def link_of(self, comment_id: int) -> tuple[str, str] | None:
        """The two reports that a comment has linked."""
        rows = self.file.ask("SELECT report, duplicate FROM comment_links WHERE comment_id = ?", comment_id)
        return rows[0] if rows else None

    def remember_link(self, comment_id: int, report: str, duplicate: str) -> None:
        """Keeps what a comment has linked."""
        self.file.ask("INSERT OR REPLACE INTO comment_links VALUES (?, ?, ?)", comment_id, report, duplicate)

    def forget_link(self, comment_id: int) -> None:
        """Forgets what a comment has linked."""
        self.file.ask("DELETE FROM comment_links WHERE comment_id = ?", comment_id)

    def comments_linking(self, report: str, duplicate: str) -> int:
        """How many comments link these two reports, in either direction."""
        one_way = "(report = ? AND duplicate = ?)"  # either way is found by an index; with IN there would be a scan
        query = f"SELECT count(*) FROM comment_links WHERE {one_way} OR {one_way}"
        ((count,),) = self.file.ask(query, report, duplicate, duplicate, report)
        return int(count)
