"""Find the duplicates that comments name.

"Duplicate of #12" counts. Quoted lines, code and struck-out text do not count, nor does "#7 is a duplicate of #12",
which is about another issue. "Not a duplicate of #12" and "wrongly closed as a duplicate of #12" withdraw earlier
comments about #12. "Possible duplicate of #12", "Is this a duplicate of #12", "same as #12", "already reported in #12"
and "closing in favor of #12" are guesses, and so is all that bots say.

If an issue was closed as a duplicate and the tracker does not record of which, these count, the first that there are:
comments of people that are certain, and their guesses; what bots are certain of; the last comment before closing that
names a single issue in any words ("The original is #12"), of members first, or else a later one; a guess of a bot, if
it is the only one. A member's comment on the day of closing that consists only of "#12" also marks a duplicate, as
``reference``.
"""

import re
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from gedbd.corpora.readers.issue import Link

LINE = r"[ \t]*"
# Text that is ignored: HTML comments, blocks of Jira markup and of HTML, the mail that is replied to, fenced blocks,
# struck-out text and inline code. A block that is never closed extends to the end (\Z).
IGNORED = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|\{(code|noformat|quote)(?::[^{}\n]*)?\}.*?(?:\{\1\}|\Z)"
    r"|<(blockquote|pre|code|del)\b[^<>\n]*>.*?(?:</\2>|\Z)"
    rf"|^{LINE}-+ ?Original Message ?-+.*"
    rf"|^{LINE}(```+|~~~+).*?(?:^{LINE}\3[`~]*{LINE}\r?$|\Z)"
    r"|~~[^\n]+?~~|(?<!`)(`+)(?!`)[^\n]+?(?<!`)\4(?!`)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# Quoted lines, in Markdown and in Jira markup.
QUOTED = re.compile(rf"^{LINE}(?:>|bq\. ).*$", re.MULTILINE)
# Indented code: lines after an empty line, or at the beginning.
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?:(?: {4}|\t).*\n?)+")
EMPHASIS = re.compile(r"\{\*\}|\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")  # of *no* and _not_
# "duplicate", "duplicates", "duplicated", "dupe", "dup", ...
WORD = r"(?:duplicated?|dupe?)s?"
NOUN = r"(?:(?:report|issue|bug|ticket)s?)"
# What comes before the number: "duplicate of", "dupe:", "duplicates", "as a duplicate", "Duplicate, see", ...
PHRASE = (
    rf"(?:\b{WORD}\s+(?:{NOUN}\s+)?(?:of|by|with|to)\b|\b{WORD}(?:\s+{NOUN})?\s*:|\bduplicates\b|\bdupes\b|\bdups\b"
    r"|(?:(?:\b(?:as|is)|['\u2019]s)\s+(?:an?\s+)?(?:exact\s+)?duplicate|(?:^|(?<=[.!]\s))[ \t/-]*duplicate|\bdupe?)\b"
    r"(?:[,.;](?=\s+(?:please\s+)?see\b))?)"
)
# Phrases that say so without that word: "same as", "same problem as", "already reported in", "in favor of".
ALIKE = (
    r"(?:\bsame\s+(?:(?:bug|issue|problem|report)\s+)?as\b|\balready\s+(?:reported|tracked)\b(?:\s+(?:as|by|under)\b)?"
    r"|\bin\s+favou?r\s+of\b)"
)
KEYWORDS = ("dup", "same", "already", "favo")  # a comment without any of these names no duplicate
# What may stand between the phrase and the number: "the existing issue (", "bug number", and then a title, as in
# "[Map is slow](https://...)", "[Map is slow|https://...]" and '"Map is slow" #12'.
FILLER = (
    r"(?:[\s:\[(<\"'\u2010-\u2015-]|\b(?:the|this|an?|our|older|earlier|existing|original|issues?|bugs?|ticket|tracked"
    r"|report(?:ed)?|in|at|number|no\.|id|please|see)(?!\w))*"
)
TITLE = r"(?:\[(?:[^\[\]\n]|\[[^\[\]\n]*\]){1,300}(?:\]\(\s*<?|\|)|\"[^\"\n]{1,300}\"[\s:(\[-]*)?"
# A comma ends a clause, not a sentence: a negation concerns its clause, a hedge the whole sentence.
CLAUSE = re.compile(r"[.!?;,:)]\s|\n|\s[-\u2013\u2014]+\s")
SENTENCE = re.compile(r"[.!?;]\s|\n")
# What is denied before these words does not concern a mention after them: "won't fix because it is a duplicate of".
CONJUNCTION = re.compile(r"\b(?:but|because|since|so|as (?:it|this))\b", re.IGNORECASE)
JUDGED = r"(?:clos|mark|flag|label|tagg|classif|consider|identif|detect|resolv|treat|call|link)\w*"
ERROR = (
    r"(?:(?:wrong|incorrect|mistaken|erroneous|false|improper|accidental|unfair|premature)(?:ly)?|inadvertently"
    r"|by (?:mistake|accident)|in error|too (?:early|quickly|soon))"
)
DENIED = re.compile(
    r"\b(?:not|never|cannot|no longer|neither|nor|hardly|far from|no means|no way|un-?mark\w*|rather than|instead of"
    r"|different (?:from|than|to)|disagree|mistake to)\b|n['\u2019\u00b4]t\b|(?<!no )\bdoubt\b"
    r"|\b(?:do|does|did|is|was|are|ca|wo|would|should|could)nt\b"
    r"|\b(?:no|non|more than an?)[\s-]+(?:(?:real|true|exact)\s+)?$"
    rf"|\bstop\s+(?:\w+\s+)?{JUDGED}|\b{ERROR}\s+(?:\w+\s+){{0,2}}{JUDGED}|\b{JUDGED}\s+(?:\w+\s+){{0,2}}{ERROR}\b",
    re.IGNORECASE,
)
# Before or after the mention: "It is not a duplicate, see #12".
NO_DUPLICATE = re.compile(
    rf"\b(?:no|non|not|(?:\w+n)['\u2019]?t)[\s-]+(?:(?:an?|the|exactly|exact|really|real|true)\s+){{0,3}}{WORD}\b",
    re.IGNORECASE,
)
HEDGED = re.compile(
    r"\b(?:possibl[ey]|potential(?:ly)?|probabl[ey]|likely|maybe|perhaps|might|may|could|can(?!['\u2019])|would|seem\w*"
    r"|look(?:s|ed)?|sound\w*|similar|related|think|thought|guess\w*|suspect\w*|wonder\w*|if|unless|whether|apparently"
    r"|appear\w*|almost|nearly|assum\w+|unsure|bot|how|(?<!s )why|(?:not|n['\u2019]t) (?:sure|certain)"
    r"|(?:says?|said|claim(?:s|ed)?|told)(?: me| us)?(?: that)? (?:this|it|that))\b|[\"\u201c\u00ab]$",
    re.IGNORECASE,
)
# "Is this a duplicate of #12", "Isn't it ...", "Why was it closed as ...", also without a question mark.
ASKED = re.compile(
    r"\W*(?:(?:so|and|or|but|hm+|hey|hi|wait|@[\w-]+)\W+)*(?:why|how|(?:is|are|was|were|do|does|did|should|could|would|can)"
    r"(?:n?['\u2019]?t|\s+not)?\s+(?:this|that|it|these|those|they|we|you|i|my))\b",
    re.IGNORECASE,
)
# After a mention: "#12?", "#12, I think", "#12, but it is a different problem".
DOUBTED = re.compile(
    r"[^.!?\n]{0,200}\?|[^\n]{0,3},? (?:I (?:think|guess)|maybe|perhaps|probably|possibly)\b"
    r"|[^.!?\n]{0,20}\b(?:but|which|though|although|however)\b[^.!?\n]{0,60}?"
    r"(?:\b(?:different|unrelated|wrong|reopen\w*)\b"
    r"|(?:\bnot|n['\u2019]t)(?:\s+(?:related|(?:a|the) (?:dup|same)\w*)|\W*$))",
    re.IGNORECASE | re.MULTILINE,
)
# After a mention, if the issue was judged before it: "closed as a duplicate of #12 by mistake".
REGRETTED = re.compile(rf"[^.!?,;\n]{{0,30}}\b(?:{ERROR}|an? (?:mistake|error))\b", re.IGNORECASE)
# The beginning of an address in a comment, of which the scheme may be left out if its host has a dot, and its end.
SCHEME = r"(?:https?://(?:www\.)?|(?<![\w./@:-])(?:www\.)?(?=\w[\w-]{0,60}\.[\w.-]{2,60}/))"
QUERY = r"(?:/?(?:\?[\w=&%.-]+)?(?:#[\w-]+)?)"
# A number in "duplicate of 12", unless it counts something or numbers a step.
NUMBER = (
    r"\b(?P<id9>\d+)(?!(?<=^\d)[.)]\s)(?=\s*$|\s*[.,;:!?)\]*<>\"'/](?!\d)"
    r"|\s+(?:as|and|or|which|that|so|since|because|but|per|closing)\b)"
)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
CLOSING_TIME = timedelta(minutes=1)  # a comment with which an issue is closed may be dated a little later
CONTEXT_CHARACTERS = 300  # before and after a mention, which can change its meaning

Stance = Literal["certain", "hedged", "denied"]
Key = tuple[str, str]  # number or key of an issue, and its repository or project, empty for this one


class Comment(NamedTuple):
    """A comment."""

    text: str
    bot: bool = False  # whether a bot wrote it
    member: bool = False  # whether its author may close issues, as far as the export says
    written_at: datetime | None = None  # when it was written, UTC; ``None`` if unknown


class References:
    """Finds references to issues, in the forms in which a tracker's users write them.

    Args:
        pattern: Regular expression with groups ``id...`` and, for the repository or project, ``place...``; at most one
            of each takes part in a match.
        number: Another such expression, of what is a reference only behind "duplicate of", see ``NUMBER``.
    """

    def __init__(self, pattern: str, number: str = r"(?!)") -> None:
        # The patterns occur several times below, where names of groups would clash.
        bare = re.sub(r"\?P<\w+>", "?:", f"(?:{pattern})")
        flags = re.IGNORECASE | re.MULTILINE
        self.pattern = re.compile(pattern, re.IGNORECASE)
        self.named_pattern = re.compile(f"{pattern}|{number}", flags)
        # Behind "#12" of "[#12](https://...), #13".
        closing = r"(?:\]\([^()\s]*\)|[\])>])?"
        more = rf"(?:{closing}(?:\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+|[ \t]+){TITLE}{bare})"
        # "duplicate of #12, #13 and #14" names three issues, "#12 is a duplicate of this" names one.
        named = rf"{FILLER}{TITLE}(?P<named>{bare}{more}*)"
        self.naming = re.compile(PHRASE + named, flags)
        number = re.sub(r"\?P<\w+>", "?:", number)
        numbers = rf"{number}(?:(?:,\s*|\s+(?:and|&)\s+){number})*"
        self.numbered = re.compile(rf"\b{WORD}\s+(?:{NOUN}\s+)?of\b{FILLER}(?P<named>{numbers})", flags)
        self.alike = re.compile(ALIKE + named, flags)
        verb = r"(?:has been |have been |was |were |is |are )?(?:marked |closed )?(?:as )?(?:an? )?"
        self.named = re.compile(rf"(?P<named>{bare})\s+{verb}{WORD} of this\b", flags)
        self.subject = re.compile(rf"{bare}\)\s+{verb}(?:exact\s+)?$", flags)  # "That one (#7) is a"

    def find(self, text: str, here: str) -> list[tuple[Key, Stance]]:
        """The issues that a comment names as duplicates, in order; ``here`` is the repository of the comment."""
        lower = text.lower()
        if not any(word in lower for word in KEYWORDS):
            return []
        spoken = spoken_text(text)
        patterns = (self.naming, self.numbered, self.named, self.alike)
        mentions = []
        for match in sorted((match for pattern in patterns for match in pattern.finditer(spoken)), key=re.Match.start):
            before = spoken[max(0, match.start() - CONTEXT_CHARACTERS) : match.start()]
            clause = CLAUSE.split(before)[-1]
            if self.pattern.search(clause) or self.subject.search(before):
                continue  # "#7 is a duplicate of #12" is about #7
            after = spoken[match.end() : match.end() + CONTEXT_CHARACTERS]
            stance = stance_of(CONJUNCTION.split(clause)[-1], SENTENCE.split(before)[-1], after)
            if match.re is self.alike and stance == "certain":
                stance = "hedged"
            mentions += [(key_of(named, here), stance) for named in self.named_pattern.finditer(match["named"])]
        return list(dict.fromkeys(mentions))

    def named_alone(self, text: str, here: str) -> Key | None:
        """The only issue that a comment names, in any words; ``None`` if it names none or several, or denies it."""
        spoken = spoken_text(text)
        matches = list(self.pattern.finditer(spoken))
        keys = {key_of(match, here) for match in matches}
        if len(keys) != 1 or NO_DUPLICATE.search(spoken):
            return None
        before = spoken[max(0, matches[-1].start() - CONTEXT_CHARACTERS) : matches[-1].start()]
        return None if DENIED.search(CLAUSE.split(before)[-1]) else keys.pop()


def spoken_text(text: str) -> str:
    """A comment without quotes, and with a backtick in place of code, so that no phrase spans code."""
    # Quotes first: quotes in code are removed with the code.
    return EMPHASIS.sub("", INDENTED.sub("\n", IGNORED.sub(" ` ", QUOTED.sub("", text.replace("\r\n", "\n")))))


def key_of(reference: re.Match[str], here: str) -> Key:
    """The issue that a reference names, see ``References``."""
    groups = [(name[:2], value) for name, value in reference.groupdict().items() if value]
    number = next(value for name, value in groups if name == "id")
    return number, other_project(next((value for name, value in groups if name == "pl"), ""), here)


def stance_of(clause: str, sentence: str, after: str) -> Stance:
    """Classifies a mention by the clause and the sentence before it and the text after it."""
    if ASKED.match(clause):
        return "hedged"
    # "It does not look like a duplicate" denies, "it looks like a duplicate" hedges.
    if HEDGED.search(sentence) and not DENIED.search(HEDGED.sub("", clause)):
        return "hedged"
    if DENIED.search(clause) or (re.search(JUDGED, clause, re.IGNORECASE) and REGRETTED.match(after)):
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
        closed: Whether it was closed as a duplicate of an issue that the tracker does not record; confirms guesses.
        source: Source of the links.
        closed_at: When it was closed, if known.
    """
    people: dict[Key, Stance] = {}
    bots: dict[Key, Stance] = {}
    for comment in comments:
        said = bots if comment.bot else people
        for key, stance in references.find(comment.text, here):
            if stance != "hedged" or key not in said:  # a guess does not withdraw what is certain
                said[key] = stance
    counted = [key for key, stance in people.items() if stance == "certain" or (closed and stance == "hedged")]
    if closed and "certain" not in people.values():
        counted += [key for key, stance in bots.items() if stance == "certain" and key not in people]
    if closed and not counted:  # people deny all that they name
        guesses = [key for key, stance in bots.items() if stance == "hedged" and key not in people]
        counted = _original(comments, references, here, people, closed_at) or (guesses if len(guesses) == 1 else [])
    return [Link(named, source, project=project) for named, project in counted]


def _original(
    comments: Sequence[Comment], references: References, here: str, denied: Container[Key], closed_at: datetime | None
) -> list[Key]:
    """The issue that the comments of a duplicate name in any words."""
    limit = LATEST if closed_at is None else closed_at + CLOSING_TIME
    people = [comment for comment in reversed(comments) if not comment.bot]
    people.sort(key=lambda comment: ((comment.written_at or EARLIEST) > limit, not comment.member))
    keys = (references.named_alone(comment.text, here) for comment in people)
    return next(([key] for key in keys if key is not None and key not in denied), [])


def bare_links(
    comments: Iterable[Comment], references: References, here: str, closed_at: datetime | None
) -> list[Link]:
    """Links to the issue whose number is all that a member's comment says on the day of closing."""
    for comment in comments:
        is_mark = comment.member and not comment.bot and references.pattern.fullmatch(comment.text.strip())
        if is_mark and closed_at and comment.written_at and comment.written_at.date() == closed_at.date():
            named, project = references.named_alone(comment.text, here) or ("", "")
            return [Link(named, "reference", comment.written_at, project)]
    return []


def is_here(project: str, here: str) -> bool:
    """Whether a repository is this one; its owner and host may be left out: ``repo``, ``owner/repo``."""
    return f"/{here}".lower().endswith(f"/{project}".lower())


def other_project(project: str, here: str) -> str:
    """A repository, empty if it is this one or none is written."""
    return "" if is_here(project, here) else project


def is_bot_name(name: str) -> bool:
    """Whether one word of a user's name is "bot": ``dependabot[bot]``, ``project_12_bot_ab34``, ``TriageBot``."""
    return not {"bot", "robot"}.isdisjoint(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
