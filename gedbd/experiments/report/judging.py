"""Buttons with which the reader of a page judges whether pairs of reports are duplicates.

A page cannot write files: ``judge.js`` keeps the verdicts in the browser's storage, and its reader downloads them as a
CSV file. Without JavaScript the page only lacks the buttons.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

ACCEPT = "accept"
REJECT = "reject"
UNCLEAR = "unclear"
PAIR = ("report", "suggested")  # columns with the ids
VERDICT = "verdict"  # the column that gets the buttons
VERDICT_TEXTS = {ACCEPT: "duplicate", REJECT: "not a duplicate", UNCLEAR: "unclear"}
SCRIPT = Path(__file__).with_name("judge.js")


@dataclass(frozen=True)
class Verdict:
    """A reader's judgement of two reports."""

    report: str  # id of the new report
    suggested: str  # id of the report that was suggested
    verdict: str  # ``accept``: they are duplicates; ``reject``: they are not; ``unclear``: the reader cannot tell
    date: str = ""  # time in UTC, such as 2026-11-23T09:30:00.000Z; empty if unknown


@dataclass(frozen=True)
class Judging:
    """How the verdicts of a page are stored."""

    key: str  # names this page in the browser's storage; pages of one run have the same
    file: str  # name of the file to download
    folder: str  # where the reader puts it
    command: str  # the command that reads it
    given: Sequence[Verdict] = ()  # the verdicts that this page was made with
    texts: ClassVar[Mapping[str, str]] = VERDICT_TEXTS  # the text of each button, by its value

    @property
    def given_values(self) -> list[dict[str, str]]:
        """The given verdicts as plain values, for the page."""
        return [asdict(verdict) for verdict in self.given]

    @property
    def script(self) -> str:
        """The JavaScript of the page."""
        return SCRIPT.read_text(encoding="utf-8")

    @property
    def security_policy(self) -> str:
        """The content security policy of the page: only this script runs; nothing is loaded or sent."""
        digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
        return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
