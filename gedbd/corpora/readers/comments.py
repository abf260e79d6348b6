"""Find what comments say about duplicates.

"Duplicate of #12" counts; quoted lines, code and text struck out do not, nor does "#7 is a duplicate of #12", which is
about another issue. "Possible duplicate of #12" and whatever a bot says is a guess, which counts once the issue was
closed as a duplicate; "not a duplicate of #12" takes back what was said before.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from gedbd.corpora.readers.issue import Link

LINE = r"[ \t]*"
SILENT = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|\{(code|noformat|quote)(?::[^{}\n]*)?\}.*?(?:\{\1\}|\Z)"
    rf"|^{LINE}(```+|~~~+).*?(?:^{LINE}\2[`~]*{LINE}\r?$|\Z)"
    r"|~~[^\n]+?~~|(?<!`)(`+)(?!`)[^\n]+?(?<!`)\3(?!`)",
    re.DOTALL | re.MULTILINE,
)
QUOTED = re.compile(rf"^{LINE}(?:>|bq\. ).*$", re.MULTILINE)
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?:(?: {4}|\t).*\n?)+")
WORD = r"(?:duplicated?|dupe?)s?"
PHRASE = (
    rf"(?:\b{WORD}\s+(?:(?:report|issue|bug|ticket)s?\s+)?(?:of|by)\b|\b{WORD}\s*:|\bduplicates\b|\bdupes?\b|\bdup\b"
    rf"|(?<=\bas\s)duplicate\b|^[ \t*_]*duplicate\b)"
)
FILLER = (
    r"(?:[\s*_:\[(<\"']|\b(?:the|this|an?|our|older|earlier|existing|original|issue|bug|ticket|report|tracked|reported"
    r"|in|at|number|see)\b)*"
)
CLAUSE = re.compile(r"[.!?;,:)]\s|\n|\s[-\u2013\u2014]+\s")
SENTENCE = re.compile(r"[.!?;]\s|\n")
DENIED = re.compile(r"\b(?:not|never|no longer|unmark\w*|rather than|instead of)\b|n['\u2019]t\b", re.IGNORECASE)
HEDGED = re.compile(
    r"\b(?:possibl[ey]|potential(?:ly)?|probabl[ey]|likely|maybe|perhaps|might|may|could|can(?!['\u2019])|would|seems?|looks?"
    r"|sounds?|similar|related|think|guess|suspect|wonder|if|whether|apparently|appears?"
    r"|(?:not|n['\u2019]t) (?:sure|certain))\b",
    re.IGNORECASE,
)
DOUBTED = re.compile(r"[^.!?\n]{0,200}\?|[^\n]{0,3},? (?:I (?:think|guess)|maybe|perhaps|probably|possibly)\b")
BEFORE = 300  # characters in front of a mention that can change its meaning

Stance = Literal["certain", "hedged", "denied"]


class Comment(NamedTuple):
    """A comment, and whether a program wrote it."""

    text: str
    bot: bool = False


class Mention(NamedTuple):
    """An issue that a comment names as a duplicate.

    Attributes:
        named: Its number or key.
        place: Repository or project in front of it, with the host in an address; empty where there is none.
        stance: How sure the comment is.
    """

    named: str
    place: str
    stance: Stance


class References:
    """How a tracker's users write the number of an issue.

    Args:
        pattern: With groups ``id...`` and, for repository or project, ``place...``; one of each takes part in a match.
    """

    def __init__(self, pattern: str) -> None:
        bare = re.sub(r"\?P<\w+>", "?:", pattern)
        flags = re.IGNORECASE | re.MULTILINE
        self.one = re.compile(pattern, re.IGNORECASE)
        more = rf"(?:(?:\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+|[ \t]+)(?:{bare}))"
        self.naming = re.compile(rf"{PHRASE}{FILLER}(?P<named>(?:{bare}){more}*)", flags)
        verb = r"(?:has been |have been |was |were |is |are )?(?:marked |closed )?(?:as )?(?:an? )?"
        self.named = re.compile(rf"(?P<named>(?:{bare}))\s+{verb}{WORD} of this\b", flags)

    def find(self, text: str) -> list[Mention]:
        """The mentions in a comment, in its order."""
        if "dup" not in text.lower():
            return []
        spoken = INDENTED.sub("\n", SILENT.sub(" ` ", QUOTED.sub("", text.replace("\r\n", "\n"))))
        matches = [*self.naming.finditer(spoken), *self.named.finditer(spoken)]
        return [mention for match in sorted(matches, key=lambda match: match.start()) for mention in self._read(match)]

    def _read(self, match: re.Match[str]) -> list[Mention]:
        before = match.string[max(0, match.start() - BEFORE) : match.start()]
        clause = CLAUSE.split(before)[-1]
        if self.one.search(clause):
            return []
        stance = stance_of(clause, SENTENCE.split(before)[-1], match.string[match.end() : match.end() + BEFORE])
        found = [reference.groupdict() for reference in self.one.finditer(match["named"])]
        return [Mention(pick(groups, "id"), pick(groups, "place"), stance) for groups in found]


def pick(groups: dict[str, str | None], kind: str) -> str:
    """What the group of this kind that took part has matched."""
    return next((value for name, value in groups.items() if name.startswith(kind) and value), "")


def stance_of(clause: str, sentence: str, after: str) -> Stance:
    """How sure a mention is, from what stands in front of it and behind it."""
    if HEDGED.search(sentence) and not DENIED.search(HEDGED.sub("", clause)):
        return "hedged"
    if DENIED.search(clause):
        return "denied"
    return "hedged" if DOUBTED.match(after) else "certain"


def comment_links(
    comments: Iterable[Comment], references: References, here: str, closed: bool, source: str
) -> tuple[list[Link], bool]:
    """The duplicates that an issue's comments name, what is said last about an issue being what counts.

    Args:
        comments: In the order in which they were written.
        references: How issues are named.
        here: The issue's own repository or project, with its host, if known.
        closed: The issue was closed as a duplicate, so guesses turned out right.
        source: Of the links.

    Returns:
        The links, and whether one into another repository or project was dropped.
    """
    said: dict[str, Stance] = {}
    elsewhere = False
    for comment in comments:
        for named, place, stance in references.find(comment.text):
            if place and not is_here(place, here):
                elsewhere |= stance == "certain" or closed
            elif comment.bot or stance == "hedged":
                said.setdefault(named, "hedged")
            else:
                said[named] = stance
    sure = [named for named, stance in said.items() if stance == "certain" or (closed and stance == "hedged")]
    return [Link(named, source) for named in sure], elsewhere


def is_here(place: str, here: str) -> bool:
    """Whether a repository as it is written, in full or without what is understood, is this one."""
    return f"/{here}".lower().endswith(f"/{place}".lower())
