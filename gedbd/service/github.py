"""GitHub's side: what its events look like, and how a comment is posted."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gedbd.service.messages import Description, Moment, Word

MARKER = "<!-- gedbd -->"
PAGES = 10
A_PAGE = 100
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
REFERENCE = r"(?:(?P<name>[\w.-]+/[\w.-]+)?#|https://[\w.-]+/(?P<place>[\w.-]+/[\w.-]+)/issues/)(?P<number>\d{1,18})"
DUPLICATE = re.compile(rf"^[ \t]*duplicate of:?[ \t]+{REFERENCE}[ \t]*[.!]?[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


class Part(BaseModel):
    """A part of an event; the many fields that are not read are passed over."""

    model_config = ConfigDict(extra="ignore")


class User(Part):
    """Who wrote something."""

    login: Word = ""
    type: Word = ""

    @property
    def is_bot(self) -> bool:
        """Whether a program did."""
        return self.type == "Bot" or self.login.endswith("[bot]")


class Issue(Part):
    """An issue; GitHub allows titles of 256 and texts of 65,536 characters."""

    number: int = Field(ge=1, lt=10**18)
    title: Word
    body: Description | None = None
    created_at: Moment | None = None
    html_url: Word | None = None
    state: Word = ""
    state_reason: Word | None = None
    pull_request: dict[str, Any] | None = None
    user: User | None = None


class Note(Part):
    """A comment."""

    body: Description | None = None
    author_association: Word = ""
    user: User | None = None


class Repository(Part):
    """Where it happened."""

    full_name: Word


class Event(Part):
    """What GitHub tells; ``comment`` is there for comments only."""

    action: Word
    issue: Issue
    repository: Repository
    comment: Note | None = None


def named_duplicate(text: str, repository: str) -> str | None:
    """The issue of this repository that a line "Duplicate of #12" names, as GitHub itself reads it; the last one."""
    found = None
    for match in DUPLICATE.finditer(text):
        elsewhere = match["name"] or match["place"] or repository
        found = match["number"] if elsewhere.lower() == repository.lower() else found
    return found.lstrip("0") if found else None


class Unposted(Exception):  # noqa: N818 - says that a comment is not there
    """A comment could not be posted; ``again`` if that may be otherwise later."""

    def __init__(self, why: str, again: bool) -> None:
        super().__init__(why)
        self.again = again


class GitHub:
    """Comments on issues.

    Args:
        token: A token that may write issues.
        api_url: Where the API is.
        timeout_s: How long one call may take, in seconds.
    """

    def __init__(self, token: str, api_url: str = "https://api.github.com", timeout_s: float = 10.0) -> None:
        self.token, self.api_url, self.timeout_s = token, api_url.rstrip("/"), timeout_s

    def comment_once(self, repository: str, issue_id: str, body: str) -> bool:
        """Posts a comment with the hidden marker unless the issue has one that bears it; a failure is tried again once.

        Returns:
            Whether it was posted; if not, it was there.

        Raises:
            Unposted: If GitHub refuses or cannot be reached.
        """
        path = f"/repos/{repository}/issues/{issue_id}/comments"
        try:
            return self._comment(path, body)
        except Unposted as unposted:
            if not unposted.again:
                raise
            return self._comment(path, body)  # looks for the marker anew: the answer alone may have been lost

    def _comment(self, path: str, body: str) -> bool:
        for page in range(1, PAGES + 1):
            notes = self._call("GET", path, params={"per_page": A_PAGE, "page": page})
            if not isinstance(notes, list):
                raise Unposted(f"{path} gave no list", again=True)
            if any(MARKER in str(note.get("body")) for note in notes if isinstance(note, dict)):
                return False
            if len(notes) < A_PAGE:
                break
        self._call("POST", path, json={"body": body})
        return True

    def _call(self, method: str, path: str, **content: Any) -> Any:
        import requests

        headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {self.token}"}
        content |= {"headers": headers, "timeout": self.timeout_s, "allow_redirects": False}
        try:
            answer = requests.request(method, self.api_url + path, **content)
            if answer.status_code < 300:
                return answer.json()
        except requests.RequestException as error:
            raise Unposted(f"{method} {path}: {type(error).__name__}", again=True) from error
        limited = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
        again = answer.status_code >= 500 or answer.status_code == 429 or limited
        raise Unposted(f"{method} {path}: status {answer.status_code}", again)
