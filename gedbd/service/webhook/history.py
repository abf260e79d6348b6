"""The latest known state of each issue and comment: events may arrive late, twice and out of order."""

from datetime import datetime

from gedbd.service.webhook.database import WebhookFile


class History:
    """When each issue and comment was last changed, whether it is deleted, and which comment linked which reports.

    Args:
        file: The open file of the webhook.
    """

    def __init__(self, file: WebhookFile) -> None:
        self.file = file

    def is_outdated(self, name: str, updated_at: datetime | None) -> bool:
        """Whether a later state is known.

        GitHub's times are whole seconds: of several states with the same time, the last to arrive counts. A deleted
        item returns only with a later time, since the last state before the deletion has the same time.

        Args:
            name: "issue 12" or "comment 345".
            updated_at: GitHub's time of the change.
        """
        rows = self.file.query("SELECT updated_at, gone FROM versions WHERE name = ?", name)
        if not rows:
            return False
        known, gone = rows[0]
        if updated_at is None:
            return bool(gone)
        moment = updated_at.timestamp()
        return bool(moment <= known if gone else moment < known)

    def remember(self, name: str, updated_at: datetime | None, gone: bool = False) -> None:
        """Records that a state was processed; the recorded time of a name never decreases."""
        query = (
            "INSERT INTO versions VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET updated_at = max(updated_at, excluded.updated_at), gone = excluded.gone"
        )
        self.file.query(query, name, updated_at.timestamp() if updated_at else 0.0, int(gone))

    def link_of(self, comment_id: int) -> tuple[str, str] | None:
        """The two reports that a comment has linked."""
        rows = self.file.query("SELECT report, duplicate FROM comment_links WHERE comment_id = ?", comment_id)
        return rows[0] if rows else None

    def remember_link(self, comment_id: int, report: str, duplicate: str) -> None:
        """Records which reports a comment has linked."""
        self.file.query("INSERT OR REPLACE INTO comment_links VALUES (?, ?, ?)", comment_id, report, duplicate)

    def forget_link(self, comment_id: int) -> None:
        """Deletes the record of a comment's link."""
        self.file.query("DELETE FROM comment_links WHERE comment_id = ?", comment_id)

    def comments_linking(self, report: str, duplicate: str) -> int:
        """Number of comments that link two reports, in either direction."""
        # Two conditions, for each of which there is an index; IN with both pairs would scan the table.
        one_way = "(report = ? AND duplicate = ?)"
        query = f"SELECT count(*) FROM comment_links WHERE {one_way} OR {one_way}"
        ((count,),) = self.file.query(query, report, duplicate, duplicate, report)
        return int(count)
