"""Find the duplicates that comments name.

"Duplicate of #12" counts. Quoted lines, code and struck-out text do not count, nor does "#7 is a duplicate of #12",
which is about another issue. "Possible duplicate of #12", "same as #12", "already reported in #12", "closing in favor
of #12" and every comment of a bot are guesses, which count if the issue was closed as a duplicate. "Not a duplicate of
#12" withdraws earlier comments about #12.

If an issue was closed as a duplicate and no comment names the original in such words, the last comment before closing
that names a single issue counts, in any words: "The original is #12". Comments of members take precedence; later
comments count if there is none. A member's comment on the day of closing that consists only of "#12" also marks a
duplicate, as ``reference``.
"""

import re
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from gedbd.corpora.readers.issue import Link

LINE = r"[ \t]*"
# Text that is ignored: HTML comments, blocks of Jira markup, fenced blocks, struck-out text and inline code.
# A block that is never closed extends to the end (\Z).
IGNORED = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|\{(code|noformat|quote)(?::[^{}\n]*)?\}.*?(?:\{\1\}|\Z)"
    rf"|^{LINE}(```+|~~~+).*?(?:^{LINE}\2[`~]*{LINE}\r?$|\Z)"
    r"|~~[^\n]+?~~|(?<!`)(`+)(?!`)[^\n]+?(?<!`)\3(?!`)",
    re.DOTALL | re.MULTILINE,
)
# Quoted lines, in Markdown and in Jira markup.
QUOTED = re.compile(rf"^{LINE}(?:>|bq\. ).*$", re.MULTILINE)
# Indented code: lines after an empty line, or at the beginning.
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?:(?: {4}|\t).*\n?)+")
# "duplicate", "duplicates", "duplicated", "dupe", "dup", ...
WORD = r"(?:duplicated?|dupe?)s?"
# What comes before the number: "duplicate of", "dupe:", "duplicates", "closed as duplicate", "Duplicate" alone.
PHRASE = (
    rf"(?:\b{WORD}\s+(?:(?:report|issue|bug|ticket)s?\s+)?(?:of|by)\b|\b{WORD}\s*:|\bduplicates\b|\bdupes?\b|\bdup\b"
    rf"|(?<=\bas\s)duplicate\b|^[ \t*_]*duplicate\b)"
)
# Phrases that say so without that word: "same as", "same problem as", "already reported in", "in favor of".
ALIKE = (
    r"(?:\bsame\s+(?:(?:bug|issue|problem|report)\s+)?as\b|\balready\s+(?:reported|tracked)\b(?:\s+(?:as|by|under)\b)?"
    r"|\bin\s+favou?r\s+of\b)"
)
KEYWORDS = ("dup", "same", "already", "favo")  # a comment without any of these names no duplicate
# What may stand between the phrase and the number: "the existing issue (", "bug number".
FILLER = (
    r"(?:[\s*_:\[(<\"']|\b(?:the|this|an?|our|older|earlier|existing|original|issue|bug|ticket|report|tracked|reported"
    r"|in|at|number|see)\b)*"
)
# A comma ends a clause, not a sentence: a negation concerns its clause, a hedge the whole sentence.
CLAUSE = re.compile(r"[.!?;,:)]\s|\n|\s[-\u2013\u2014]+\s")
SENTENCE = re.compile(r"[.!?;]\s|\n")
DENIED = re.compile(r"\b(?:not|never|no longer|unmark\w*|rather than|instead of)\b|n['\u2019]t\b", re.IGNORECASE)
HEDGED = re.compile(
    r"\b(?:possibl[ey]|potential(?:ly)?|probabl[ey]|likely|maybe|perhaps|might|may|could|can(?!['\u2019])|would|seems?|looks?"
    r"|sounds?|similar|related|think|guess|suspect|wonder|if|whether|apparently|appears?"
    r"|(?:not|n['\u2019]t) (?:sure|certain))\b",
    re.IGNORECASE,
)
# After a mention: "#12?", "#12, I think".
DOUBTED = re.compile(r"[^.!?\n]{0,200}\?|[^\n]{0,3},? (?:I (?:think|guess)|maybe|perhaps|probably|possibly)\b")
LATEST = datetime.max.replace(tzinfo=UTC)
CLOSING_TIME = timedelta(minutes=1)  # a comment with which an issue is closed may be dated a little later
CONTEXT_CHARACTERS = 300  # before and after a mention, which can change its meaning

Stance = Literal["certain", "hedged", "denied"]


class Comment(NamedTuple):
    """A comment."""

    text: str
    bot: bool = False  # whether a bot wrote it
    member: bool = False  # whether its author may close issues, as far as the export says
    written_at: datetime | None = None  # when it was written, UTC; ``None`` if unknown


class Mention(NamedTuple):
    """An issue that a comment names as a duplicate."""

    named: str  # its number or key
    project: str  # the repository or project before the number, with the host if it is an address; empty if not given
    stance: Stance  # whether the comment is certain, guesses or denies


class References:
    """Finds references to issues, in the forms in which a tracker's users write them.

    Args:
        pattern: Regular expression with groups ``id...`` and, for the repository or project, ``place...``; at most one
            of each takes part in a match.
    """

    def __init__(self, pattern: str) -> None:
        # The pattern occurs several times below, where names of groups would clash.
        bare = re.sub(r"\?P<\w+>", "?:", pattern)
        flags = re.IGNORECASE | re.MULTILINE
        self.pattern = re.compile(pattern, re.IGNORECASE)
        more = rf"(?:(?:\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+|[ \t]+)(?:{bare}))"
        # "duplicate of #12, #13 and #14" names three issues, "#12 is a duplicate of this" names one.
        self.naming = re.compile(rf"{PHRASE}{FILLER}(?P<named>(?:{bare}){more}*)", flags)
        self.alike = re.compile(rf"{ALIKE}{FILLER}(?P<named>(?:{bare}){more}*)", flags)
        verb = r"(?:has been |have been |was |were |is |are )?(?:marked |closed )?(?:as )?(?:an? )?"
        self.named = re.compile(rf"(?P<named>(?:{bare}))\s+{verb}{WORD} of this\b", flags)

    def find(self, text: str) -> list[Mention]:
        """The mentions in a comment, in order."""
        lower = text.lower()
        if not any(word in lower for word in KEYWORDS):
            return []
        spoken = spoken_text(text)
        matches = [match for pattern in (self.naming, self.named, self.alike) for match in pattern.finditer(spoken)]
        matches.sort(key=re.Match.start)
        return [mention for match in matches for mention in self._mentions(match)]

    def named_alone(self, text: str) -> Mention | None:
        """The only issue that a comment names, in any words; ``None`` if it names none or several, or denies it."""
        spoken = spoken_text(text)
        mentions = {}
        for match in self.pattern.finditer(spoken):
            groups = match.groupdict()
            before = spoken[max(0, match.start() - CONTEXT_CHARACTERS) : match.start()]
            is_denied = DENIED.search(CLAUSE.split(before)[-1]) is not None
            mention = Mention(pick(groups, "id"), pick(groups, "place"), "denied" if is_denied else "hedged")
            mentions[mention.project, mention.named] = mention
        first = next(iter(mentions.values()), None)
        return first if first is not None and len(mentions) == 1 and first.stance != "denied" else None

    def _mentions(self, match: re.Match[str]) -> list[Mention]:
        before = match.string[max(0, match.start() - CONTEXT_CHARACTERS) : match.start()]
        after = match.string[match.end() : match.end() + CONTEXT_CHARACTERS]
        clause = CLAUSE.split(before)[-1]
        if self.pattern.search(clause):
            return []  # "#7 is a duplicate of #12" is about #7
        stance = stance_of(clause, SENTENCE.split(before)[-1], after)
        if match.re is self.alike and stance == "certain":
            stance = "hedged"
        references = [reference.groupdict() for reference in self.pattern.finditer(match["named"])]
        return [Mention(pick(groups, "id"), pick(groups, "place"), stance) for groups in references]


def spoken_text(text: str) -> str:
    """A comment without quotes, and with a backtick in place of code, so that no phrase spans code."""
    # Quotes first: quotes in code are removed with the code.
    return INDENTED.sub("\n", IGNORED.sub(" ` ", QUOTED.sub("", text.replace("\r\n", "\n"))))


def pick(groups: dict[str, str | None], kind: str) -> str:
    """The match of the group of this kind; empty if there is none."""
    return next((value for name, value in groups.items() if name.startswith(kind) and value), "")


def stance_of(clause: str, sentence: str, after: str) -> Stance:
    """Classifies a mention by the clause and the sentence before it and the text after it."""
    # "It does not look like a duplicate" denies, "it looks like a duplicate" hedges.
    if HEDGED.search(sentence) and not DENIED.search(HEDGED.sub("", clause)):
        return "hedged"
    if DENIED.search(clause):
        return "denied"
    return "hedged" if DOUBTED.match(after) else "certain"


def comment_links(
    comments: Sequence[Comment],
    references: References,
    here: str,
    closed: bool,
    source: str,
    closed_at: datetime | None = None,
) -> list[Link]:
    """The duplicates that an issue's comments name; for each of them, the last comment about it counts.

    Args:
        comments: In chronological order.
        references: Finds the named issues.
        here: The issue's own repository or project, with its host, if known.
        closed: Whether the issue was closed as a duplicate, which confirms guesses.
        source: Source of the links.
        closed_at: When it was closed, if known.
    """
    stances: dict[str, Stance] = {}
    elsewhere: list[Link] = []
    for comment in comments:
        for named, project, stance in references.find(comment.text):
            if project and not is_here(project, here):
                elsewhere += [Link(named, source, project=project)] if stance == "certain" or closed else []
            elif comment.bot or stance == "hedged":
                stances.setdefault(named, "hedged")  # a guess does not withdraw what is certain
            else:
                stances[named] = stance
    counted = {"certain", "hedged"} if closed else {"certain"}
    links = [*(Link(named, source) for named, stance in stances.items() if stance in counted), *elsewhere]
    if closed and not links:
        denied = {named for named, stance in stances.items() if stance == "denied"}
        limit = LATEST if closed_at is None else closed_at + CLOSING_TIME
        in_time = [comment for comment in comments if comment.written_at is None or comment.written_at <= limit]
        later = [comment for comment in comments if comment not in in_time]
        originals = (_original(group, references, here, source, denied) for group in (in_time, later))
        return next(filter(None, originals), [])
    return links


def _original(
    comments: Sequence[Comment], references: References, here: str, source: str, denied: Set[str]
) -> list[Link]:
    """The issue that the comments of a duplicate name in any words."""
    latest_first = sorted(reversed(comments), key=lambda comment: not comment.member)
    for comment in latest_first:
        mention = None if comment.bot else references.named_alone(comment.text)
        if mention is not None and mention.named not in denied:
            return [Link(mention.named, source, project=other_project(mention.project, here))]
    return []


def bare_links(
    comments: Iterable[Comment], references: References, here: str, closed_at: datetime | None
) -> list[Link]:
    """Links to the issue whose number is all that a member's comment says on the day of closing."""
    for comment in comments:
        is_mark = comment.member and not comment.bot and references.pattern.fullmatch(comment.text.strip())
        if is_mark and closed_at and comment.written_at and comment.written_at.date() == closed_at.date():
            mention = references.named_alone(comment.text)
            assert mention is not None
            return [Link(mention.named, "reference", comment.written_at, other_project(mention.project, here))]
    return []


def is_here(project: str, here: str) -> bool:
    """Whether a repository is this one; its owner and host may be left out: ``repo``, ``owner/repo``."""
    return f"/{here}".lower().endswith(f"/{project}".lower())


def other_project(project: str, here: str) -> str:
    """A repository, empty if it is this one or none is written."""
    return "" if is_here(project, here) else project
