"""Proposes to close an issue as a duplicate through GitHub's issues API, and undoes it if GitHub closes it instead.

The request is the one of GitHub's own MCP server (github/github-mcp-server, pull request 2802): ``state`` is an object
with ``suggest``, ``rationale`` and ``confidence``, and ``duplicate_issue_id`` is the other issue's id in the database,
not its number. We have not found these fields in GitHub's reference. An API that does not know ``suggest`` may refuse
the request, ignore it, or close the issue. So the issue is read before the request and after it, and if the request has
closed it, it is reopened.
"""

import logging
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.readers.issue import DUPLICATE
from gedbd.service.webhook.database import WebhookFile
from gedbd.service.webhook.github_comments import CommentClient, CommentError
from gedbd.service.webhook.index_updater import SOURCE, EventResult, as_report
from gedbd.service.webhook.payloads import Event
from gedbd.service.webhook.suggestion import Suggestion
from gedbd.triage.stored_index import StoredIndex

MAX_RATIONALE = 280  # characters that GitHub's MCP server allows
HIGH_FROM = 0.8  # probabilities from which GitHub's three levels of confidence begin
MEDIUM_FROM = 0.5
# What became of a proposal. "sent": the result is unknown, "made": the issue stayed open, "closed": GitHub closed it,
# "reopened": and it was reopened, "refused": by GitHub, "skipped": one of the two issues had been closed meanwhile.
WAITING = "waiting"
SENT = "sent"
CLOSED = "closed"
MADE = "made"
REFUSED = "refused"
REOPENED = "reopened"
SKIPPED = "skipped"
ACCEPTED = "accepted"
DECLINED = "declined"
UNFINISHED = (WAITING, SENT, CLOSED)
log = logging.getLogger("gedbd")


class Proposal(NamedTuple):
    """A proposal to close an issue."""

    repository: str
    issue_id: str
    duplicate: str
    rationale: str
    confidence: str
    state: str = WAITING

    @classmethod
    def of(cls, repository: str, issue_id: str, suggestion: Suggestion) -> "Proposal":
        """The proposal that follows from a comment."""
        best = suggestion.named[0]
        why = f": {best.reasons}" if best.reasons else ""
        rationale = f"Probability {best.probability:.0%}{why}. {suggestion.evidence}"
        if len(rationale) > MAX_RATIONALE:
            rationale = f"{rationale[: MAX_RATIONALE - 1]}\u2026"
        levels = [(HIGH_FROM, "HIGH"), (MEDIUM_FROM, "MEDIUM"), (0.0, "LOW")]
        confidence = next(level for lowest, level in levels if best.probability >= lowest)
        return cls(repository, issue_id, best.issue_id, rationale, confidence)

    def request(self, duplicate_id: int) -> dict[str, Any]:
        """The JSON of the request; ``duplicate_id`` is the other issue's id in GitHub's database."""
        state = {"value": "closed", "suggest": True, "rationale": self.rationale, "confidence": self.confidence}
        return {"state": state, "state_reason": DUPLICATE, "duplicate_issue_id": duplicate_id}


class ProposalStore:
    """Keeps proposals on disk, at most one for each issue.

    Args:
        file: The open file of the webhook.
    """

    def __init__(self, file: WebhookFile) -> None:
        self.file = file

    def put(self, proposal: Proposal) -> None:
        """Adds a proposal unless there is one for the issue."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        self.file.query("INSERT OR IGNORE INTO proposals VALUES (?, ?, ?, ?, ?, ?, ?)", *proposal, moment)

    def get(self, repository: str, issue_id: str) -> Proposal | None:
        """The proposal for an issue."""
        columns = ", ".join(Proposal._fields)
        query = f"SELECT {columns} FROM proposals WHERE repository = ? AND issue_id = ?"
        found = self.file.query(query, repository, issue_id)
        return Proposal(*found[0]) if found else None

    def set_state(self, proposal: Proposal, state: str) -> None:
        """Records what became of a proposal."""
        query = "UPDATE proposals SET state = ? WHERE repository = ? AND issue_id = ?"
        self.file.query(query, state, proposal.repository, proposal.issue_id)


def propose(client: CommentClient, store: ProposalStore, proposal: Proposal) -> str:
    """Proposes to close an issue, and makes sure that it was not closed by that.

    A proposal that was sent before, with an unknown result, is not sent again.

    Returns:
        "made", "refused", "reopened" or "skipped"; see above.

    Raises:
        CommentError: If GitHub cannot be reached at the moment. Calling it again continues.
    """
    path = f"/repos/{proposal.repository}/issues/{proposal.issue_id}"
    issue = client.read_issue(path)
    if proposal.state != WAITING:
        return _check_open(client, store, proposal, path, issue)
    original = client.read_issue(f"/repos/{proposal.repository}/issues/{proposal.duplicate}")
    number = original.get("id")
    if issue.get("state") != "open" or not isinstance(number, int) or original.get("state_reason") == DUPLICATE:
        return SKIPPED
    store.set_state(proposal, SENT)
    refusal: CommentError | None = None
    try:
        client.change_issue(path, proposal.request(number))
    except CommentError as error:
        # Only a clear refusal says that nothing was changed.
        is_clear = 400 <= error.status < 500 and error.status != 408
        if is_clear and error.is_temporary:
            store.set_state(proposal, WAITING)
        if not is_clear or error.is_temporary:
            raise
        refusal = error
    result = _check_open(client, store, proposal, path, client.read_issue(path))
    if result == MADE and refusal is not None:
        log.warning("no proposal to close issue %s: %s", proposal.issue_id, refusal)
        return REFUSED
    return result


def _check_open(
    client: CommentClient, store: ProposalStore, proposal: Proposal, path: str, issue: dict[str, Any]
) -> str:
    """Reopens an issue that the request has closed.

    Raises:
        CommentError: If it is still closed, so that it is tried again.
    """
    if issue.get("state") == "open" and proposal.state != CLOSED:
        return MADE
    if issue.get("state") != "open":
        closed_by = (issue.get("closed_by") or {}).get("login")
        own = client.author_of_marker(f"{path}/comments")
        if closed_by and own and closed_by != own:
            return MADE  # somebody else has closed it: they may have accepted the proposal
        store.set_state(proposal, CLOSED)
        client.change_issue(path, {"state": "open"})
        if client.read_issue(path).get("state") != "open":
            raise CommentError(f"{path}: it was closed by a proposal and cannot be reopened", is_temporary=True)
    log.error(
        "GitHub closed issue %s instead of proposing it, so it was reopened, and no further issue is proposed for"
        " closing: use webhook.suggest=comment",
        proposal.issue_id,
    )
    return REOPENED


def record_decision(
    store: ProposalStore,
    feedback: FeedbackStore,
    index: StoredIndex,
    repository: str,
    event: Event,
    result: EventResult,
) -> str:
    """Turns what people do with an issue into feedback on the proposal for it; returns the proposal's new state.

    A person who closes it as a duplicate accepts, unless it is linked to another group; one who closes it for another
    reason, or calls it a duplicate of another issue, declines. One who reopens it takes the decision back. Programs
    decide nothing. GitHub sends no event that is documented for a proposal that is declined alone.

    Args:
        store: The proposals.
        feedback: Where decisions are recorded.
        index: The stored reports.
        repository: "owner/name", as in the proposals.
        event: What has happened, after the index was updated by it.
        result: The result of the event.
    """
    issue = event.issue
    proposal = store.get(repository, str(issue.number))
    known = (SENT, MADE, ACCEPTED, DECLINED)
    is_decided_by_event = result.code == "linked" or (event.comment is None and event.action in ("closed", "reopened"))
    if proposal is None or proposal.state not in known or not is_decided_by_event or result.code == "outdated":
        return ""
    if event.sender is not None and event.sender.is_bot:
        return ""
    group = index.known_duplicates([proposal.issue_id])[proposal.issue_id]
    if event.action == "reopened":
        state = MADE
    elif group:
        state = ACCEPTED if proposal.duplicate in group else DECLINED
    else:
        state = ACCEPTED if issue.state_reason == DUPLICATE else DECLINED
    if state == MADE:
        feedback.withdraw(proposal.issue_id, proposal.duplicate, SOURCE, only_source=SOURCE)
    else:
        verdict = "accept" if state == ACCEPTED else "reject"
        who = event.sender.login[:200] if event.sender else ""
        feedback.record(FeedbackEvent(as_report(issue), proposal.duplicate, verdict, SOURCE, who))
    store.set_state(proposal, state)
    return state
