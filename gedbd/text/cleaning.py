"""Cleaning of descriptions: stack traces, logs, code, URLs, boilerplate, and lines of the tracker's issue template."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

import pandas as pd

from gedbd.text.words import URL

MAX_MATCHED_CHARACTERS = 600  # of a line; bounds the time of matching
MIN_RUN_LINES = 4  # of a log, and of code outside fences
# Lines that shortening keeps.
KEPT_FRAMES = 3
KEPT_ERRORS = 5
KEPT_CODE_LINES = 3
LEVEL = r"(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|SEVERE|VERBOSE)"
SPEAKER = "(?:EXCEPTION|EXEC|JAVAC?|JUNIT)"
DATE = r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?[T ]\s?|\d\d?[-/]\d\d?(?:[-/]\d{2,4})?\s+|[A-Z][a-z]{2}\s{1,2}\d\d?\s(?:\d{4}\s)?)"
TIME = rf"[\[('\"]?{DATE}?\d\d?:\d\d:\d\d\b[.,:]?\d*Z?[\])'\"]?"
TAG = rf"[VDIWEFA]/[^\s():][^():]{{0,60}}\(\s*\d+\)\s?:|\[\s?(?i:{LEVEL}|{SPEAKER})\s?\]|{LEVEL}\b(?=[\s:|(\[])"
THREAD_TAG = r"\d+\s+\d+\s+[VDIWEF]\s[^\s:]{1,60}\s?:|[\w.-]{1,60}\[\d+(?::\w+)?\](?:\s\w{4,8}:)?"
COMPILER = (
    r"(?:[^\s(][^(]{0,300}\(\d+(?:,\d+)*\)\s?:\s)?(?:error|warning)\s[A-Z]{2,10}\d{1,6}\s?:"
    r"|[^\s:]{1,300}:\d+(?::\d+)?:\s(?:fatal\s)?(?:error|warning|note):"
)
PREFIX = re.compile(rf"[\s|>]*(?:(?:{TIME}|{TAG}|{THREAD_TAG})[\s:|]*){{0,3}}")
LOG = re.compile(rf"[\s|>]*+(?:{TIME}|{TAG}|{COMPILER})")
ERROR_OR_WARNING = re.compile(r"error|warn|fail|exception|fatal|severe|\b[EWF]/", re.IGNORECASE)
FRAME = re.compile(
    r"""at\s+(?:\(wrapper\s|<[\w$]++[^>]*>                                                    # Mono, JavaScript
      |(?:async\s|new\s)?[^\s(]++\s?(?:\[as\s[^\]]++\]\s)?
       \((?:[^()]*:\d+|Native\ Method|Unknown\ Source|native|<anonymous>|\w+\.java)\)         # Java, JavaScript
      |[^\s(]++\s?\([^)]*+\)+\s*(?:$|\[0x|<0x|<IL|<filename|in\s.*(?::\d|\sline\s\d|:line)|\[\d) # .NET, Mono
      |(?=\S*[/\\.])[^():]*(?::[^():]*)*:\d+:\d+\)?\s*$)                                  # JavaScript, no name
    |[\w.$<>]++\([\w$]+\.(?:java|scala|kt|groovy):\d+\)                                       # Java, wrapped after at
    |[\w.$<>/]*+@\S+\.\w+:\d+:\d+\s*$                                                         # JavaScript, Firefox
    |(?:frame\s)?\#\d+:?\s+(?:0x[\da-fA-F]+\b|[\w:~<>]+\s\(.*\)\sat\s\S+:\d+)                  # gdb, lldb
    |[^\s\[]*+\s?\[0x[\da-fA-F]{6,}\]\s*$                                                     # native, glibc
    |\d+\s+\S+\s+0x[\da-fA-F]{8,}\s                                                           # native, macOS""",
    re.VERBOSE,
)
EXCEPTION = re.compile(
    r"""(?:Caused\ by:|Suppressed:|(?i:(?:fatal\s)?unhandled\sexception):|Uncaught\s)
    |(?:Exception\ in\ thread\ "[^"]*+"\s+|-+>\s*|\([Ii]nner\ [Ee]xception\ [^)]*+\)\s*)*
     (?:[\w.$`+]*?(?:Exception|Error|Failure|Throwable|Fault)(?::|\s*$|\s-+>)|[\w$]+(?:\.[\w$]+){2,}:\s)""",
    re.VERBOSE,
)
ROLES = {
    "frame": FRAME,
    "exception": EXCEPTION,
    "end": re.compile(r"-+\sEnd\sof\sinner\s"),
    "link": re.compile(
        r"(?:\[0x\w+\]\s*)?(?:in\s(?:/|<|[A-Z]:\\)\S*\s*)?$"  # a frame broken over lines
        r"|-\s(?:locked|waiting|parking|eliminated)\b|-+\sEnd\sof\s|\.\.\.\s*$"
    ),
    "more": re.compile(r"\.\.\.\s\d+\s(?:more|common|lines)|Traceback \(most recent|at\s*$"),
}
CALL = re.compile(r'File "[^"]+", line \d+')
FENCE = re.compile(r"```|\{(code|noformat)(?::[^{}]*)?\}|<(code|pre)\b[^<>]*>")
CODE = re.compile(
    r"""\s*+(?![-*+•]\s|\d+[.)]\s|\{\{)(?:
     [{}()\[\];,]+\s*$
    |//|\#(?:include|define|ifdef|endif|pragma)\b
    |</?(?!(?:p|a|b|i|br|div|li|ul|ol|h\d|em|img|span|strong)\b)[A-Za-z?!][\w:.]*(?:\s*$|(?=.*>\s*$|.*="))
    |[\w:.]+="[^"]*"\s*/?>?\s*$
    |(?=.*[;{}][)\],;]{0,4}(?:\s*//.*)?\s*$)(?=.*(?:\w[(\[]|\w\s\(|\w\.\w|=|[{}])|\w+\s\w+;)
    |(?:if|for|foreach|while|switch|catch|using|lock)\s?\(.*\)\s*$|(?:else|try|finally|do)\s*$
    |(?:public|private|protected|internal|static)\s[\w<>\[\].,?:\s]++(?:\(.*\)\s*)?$
    |["']\w+["']\s*:.*|\w+\s*[:=]\s*(?:["'{\[\d-]|true|false|null|function|new\s).*,\s*$
    |\[\w+(?:\(.*\))?\]\s*$)""",
    re.VERBOSE,
)
KINDS = ("stack_traces", "logs", "code", "urls", "boilerplate")
CHOICES = ("keep", "shorten", "mark")
# A line is boilerplate if enough of at least MIN_DESCRIPTIONS descriptions share it.
MIN_DESCRIPTIONS = 100
MIN_COPIES = 20
MIN_COPIES_FRACTION = 0.01

# A heading of Markdown or Jira, a checkbox, a line that is bold throughout, or a label with nothing after it.
FORM = re.compile(
    r"""\#{1,6}\s+\S              # ## Steps to reproduce
    |h[1-6]\.\s?\S                # h3. Steps to reproduce
    |[-*+]\s\[[\sxX]\]\s          # - [x] I have searched for the same problem
    |(\*\*|__)[^*_]+\1[:\uff1a]?$     # **Expected results**
    |\*[^*\s][^*]*\*:?$           # *Steps to reproduce:*
    |=+\s[^=]+\s=+$               # === Operating system ===
    |(?![a-z])[^\W\d_][^:{}()<>;=]{1,40}[:\uff1a]$  # Actual result:""",
    re.VERBOSE,
)
SENTENCE_ENDS = tuple(".:?!\u3002\uff1a\uff1f\uff01")  # Chinese and Japanese full stop, colon, and so on
MIN_WORDS = 4  # of an instruction
MIN_CHARACTERS = 12  # of an instruction in a script without blanks
JIRA_FENCE = re.compile(r"\{(?:code|noformat)(?::[^{}]*)?\}")
# A line belongs to the template if 1% of the descriptions have it, and at least 3 do; 20 are always enough. An
# instruction needs more copies, as it looks like a reporter's sentence.
MIN_TEMPLATE_FRACTION = 0.01
MIN_FORMS = 3
SUFFICIENT_FORMS = 20
MIN_INSTRUCTIONS = 20


@dataclass(frozen=True)
class Cleaning:
    """Keeps, shortens or marks each kind of noise in descriptions.

    ``keep`` leaves a kind as it is, ``mark`` replaces it with a marker such as ``[LOG]``, and ``shorten`` keeps

    - of a stack trace the exceptions and the innermost three frames of each,
    - of a log the first line, the first five lines that report an error or warning, and the last line,
    - of code the first three lines,
    - of a URL the host and the end of the path,
    - of boilerplate nothing: lines that at least 1% of the descriptions share, and at least 20 of them.

    Raises:
        ValueError: If a choice is unknown.
    """

    stack_traces: str = "keep"
    logs: str = "keep"
    code: str = "keep"
    urls: str = "keep"
    boilerplate: str = "keep"
    # the boilerplate, see ``shared_lines``; null finds it in the texts that are cleaned
    shared: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for kind in KINDS:
            choice = getattr(self, kind)
            if choice not in CHOICES:
                raise ValueError(f"text.cleaning.{kind}={choice} is unknown: choose {', '.join(CHOICES)}")

    def __call__(self, descriptions: pd.Series) -> list[str]:
        """Cleans N descriptions; one that would become empty is kept unchanged."""
        texts = [str(text) for text in descriptions]
        if all(getattr(self, kind) == "keep" for kind in KINDS):
            return texts
        shared: Set[str] = set()
        if self.boilerplate != "keep":
            shared = shared_lines(texts) if self.shared is None else self.shared
        cleaned = [self.clean(text, shared) for text in texts]
        return [clean if clean.strip() else text for clean, text in zip(cleaned, texts, strict=True)]

    def clean(self, text: str, shared: Set[str]) -> str:
        """Cleans one description, given the boilerplate of ``shared_lines``; the result may be empty."""
        lines = text.splitlines(keepends=True)
        parts: list[str] = []
        end = 0
        for passage in find_passages(lines, shared):
            choice = getattr(self, passage.kind)
            if choice != "keep":
                parts += [*lines[end : passage.start], getattr(passage, choice)]
                end = passage.stop
        text = "".join([*parts, *lines[end:]])
        if self.urls == "keep":
            return text
        return URL.sub(short_url if self.urls == "shorten" else "[URL]", text)


def shared_lines(texts: list[str]) -> set[str]:
    """The boilerplate of N descriptions: frequent lines with a letter, stripped and case-folded."""
    if len(texts) < MIN_DESCRIPTIONS:
        return set()
    copies: Counter[str] = Counter()
    for text in texts:
        # A set, since a line that a description repeats counts once.
        copies.update({line.strip().casefold() for line in text.splitlines()})
    min_copies = max(MIN_COPIES, MIN_COPIES_FRACTION * len(texts))
    return {line for line, count in copies.items() if count >= min_copies and any(map(str.isalpha, line))}


def is_code_line(line: str) -> bool:
    """Whether a line is code, markup such as ``</Window>``, or a code fence."""
    start = line[:MAX_MATCHED_CHARACTERS]
    return bool(CODE.match(start) or FENCE.match(start))


def short_url(match: re.Match[str]) -> str:
    """Shortens ``https://me@b.org/a/show.cgi?id=3`` to host and last part of the path, ``b.org/show.cgi``."""
    address = re.split(r"[?#]", match[0], maxsplit=1)[0]
    host, *path = address.split("://", 1)[1].rstrip("/").split("/")
    return "/".join([host.rsplit("@", 1)[-1], *path[-1:]])


class Passage(NamedTuple):
    """Lines of a description that are noise, with their replacements."""

    start: int  # first line
    stop: int  # line after the last
    kind: str  # one of ``KINDS``
    shorten: str  # the lines that shortening keeps
    mark: str  # the marker


def find_passages(lines: list[str], shared: Set[str]) -> list[Passage]:
    """Finds passages of noise without overlaps; traces come before logs, code and boilerplate."""
    taken = bytearray(len(lines))  # 1 for each line that is in a passage
    passages: list[Passage] = []
    for find in (find_traces, find_logs, find_fences, find_code):
        for passage in find(lines, taken):
            taken[passage.start : passage.stop] = b"\1" * (passage.stop - passage.start)
            passages.append(passage)
    if not shared:
        return sorted(passages)
    is_shared = [line.strip().casefold() in shared for line in lines]
    is_boilerplate = [shared_line and not in_passage for shared_line, in_passage in zip(is_shared, taken, strict=True)]
    for in_run, group in groupby(range(len(lines)), is_boilerplate.__getitem__):
        if in_run:
            run = list(group)
            passages.append(make_passage(lines, "boilerplate", "[TEMPLATE]", run[0], run[-1] + 1, []))
    return sorted(passages)


def make_passage(lines: list[str], kind: str, marker: str, start: int, stop: int, kept: list[int]) -> Passage:
    """Makes a passage of whole lines, of which shortening keeps ``kept``; the marker ends as the last line does."""
    last = lines[stop - 1]
    ending = last[len(last.rstrip("\r\n")) :]
    return Passage(start, stop, kind, "".join(lines[index] for index in kept), marker + ending)


def find_traces(lines: list[str], taken: bytearray) -> Iterator[Passage]:
    """Finds stack traces: runs of lines with at least two frames, or a frame and an exception."""
    roles = trace_roles(lines)
    for in_trace, group in groupby(range(len(lines)), lambda index: roles[index] != ""):
        run = [index for index in group if in_trace and roles[index] != "link"]
        # An exception after the last frame begins prose, as in "I get a NullPointerException: ...".
        while run and roles[run[-1]] in ("exception", "end"):
            run.pop()
        frames = sum(roles[index] in ("frame", "call") for index in run)
        if frames > 1 or (frames and any(roles[index] in ("exception", "raised") for index in run)):
            yield make_passage(lines, "stack_traces", "[STACK TRACE]", run[0], run[-1] + 1, innermost(run, roles))


def trace_roles(lines: list[str]) -> list[str]:
    """The role of each line in a stack trace, empty outside.

    Roles are the keys of ``ROLES``, and for Python ``call`` (``File "x.py", line 3``), ``source`` (the indented lines
    after it) and ``raised`` (the exception after these).
    """
    roles = [""]
    depth = 0  # column of the last call; source lines are indented further
    for line in lines:
        if line.isspace():
            roles.append("link")
            continue
        column = PREFIX.match(line[:MAX_MATCHED_CHARACTERS]).end()  # type: ignore[union-attr]  # it matches every line
        body = line[column:MAX_MATCHED_CHARACTERS]
        if CALL.match(body):
            role = "call"
            depth = column
        elif roles[-1] in ("call", "source"):
            role = "source" if column > depth else "raised"
        else:
            role = next((role for role, pattern in ROLES.items() if pattern.match(body)), "")
        roles.append(role)
    return roles[1:]


def innermost(run: list[int], roles: list[str]) -> list[int]:
    """Selects exceptions and their innermost frames, which come last in Python and first in other languages."""
    kept: list[int] = []
    calls: list[list[int]] = []
    frames = 0
    for index in run:
        role = roles[index]
        if role == "call":
            calls.append([index])
        elif role == "source":
            calls[-1].append(index)
        elif role == "frame":
            frames += 1
            kept += [index] if frames <= KEPT_FRAMES else []
        else:
            kept += chain(*calls[-KEPT_FRAMES:])
            if role in ("exception", "raised"):
                kept.append(index)
            calls = []
            # "... 12 more" continues the frames; any other line begins a new exception.
            frames = frames if role == "more" else 0
    return [*kept, *chain(*calls[-KEPT_FRAMES:])]


def find_runs(lines: list[str], taken: bytearray, pattern: re.Pattern[str]) -> Iterator[list[int]]:
    """Finds runs of lines that match a pattern and are in no passage; empty lines are ignored."""
    run: list[int] = []
    for index, line in enumerate(lines):
        if line.isspace():
            continue
        if not taken[index] and pattern.match(line[:MAX_MATCHED_CHARACTERS]):
            run.append(index)
        else:
            yield run
            run = []
    yield run


def find_logs(lines: list[str], taken: bytearray) -> Iterator[Passage]:
    """Finds runs of lines that begin with a time, a log level or the position of a compiler message."""
    for run in find_runs(lines, taken, LOG):
        if len(run) >= MIN_RUN_LINES:
            errors = [index for index in run[1:-1] if ERROR_OR_WARNING.search(lines[index])]
            yield make_passage(lines, "logs", "[LOG]", run[0], run[-1] + 1, [run[0], *errors[:KEPT_ERRORS], run[-1]])


def find_fences(lines: list[str], taken: bytearray) -> Iterator[Passage]:
    """Finds fenced code that contains no trace and no log."""
    unclosed = set()  # closing fences that were searched for and do not occur
    index = 0
    while index < len(lines):
        opening = FENCE.search(lines[index])
        index += 1
        if not opening:
            continue
        closing = f"{{{opening[1]}}}" if opening[1] else f"</{opening[2]}>" if opening[2] else "```"
        # A fence that closes on its own line is inline code.
        if closing in unclosed or closing in opening.string[opening.end() :]:
            continue
        stop = next((stop for stop in range(index, len(lines)) if closing in lines[stop]), None)
        if stop is None:
            unclosed.add(closing)
            continue
        if not any(taken[index : stop + 1]):
            inner = [line for line in range(index, stop) if lines[line].strip()]
            kept = [index - 1, *inner[:KEPT_CODE_LINES], stop]
            passage = make_passage(lines, "code", "[CODE]", index - 1, stop + 1, kept)
            after = lines[stop].split(closing, 1)[1]
            yield passage._replace(mark=opening.string[: opening.start()] + "[CODE]" + after)
        index = stop + 1


def find_code(lines: list[str], taken: bytearray) -> Iterator[Passage]:
    """Finds runs of lines of code outside fences."""
    for run in find_runs(lines, taken, CODE):
        if len(run) >= MIN_RUN_LINES:
            yield make_passage(lines, "code", "[CODE]", run[0], run[-1] + 1, run[:KEPT_CODE_LINES])


def template_lines(descriptions: Sequence[str]) -> frozenset[str]:
    """The lines of N descriptions that come from the tracker's template, stripped and case-folded.

    A line outside code counts if it has the form of a heading, checkbox or label and 1% of the descriptions share it,
    at least 3; 20 are enough. A sentence of at least four words counts if 1% share it, at least 20.
    """
    forms: Counter[str] = Counter()
    instructions: Counter[str] = Counter()
    for text in descriptions:
        lines = {line.strip() for line, is_code in _lines(text) if not is_code}
        forms.update({line.casefold() for line in lines if is_form(line)})
        instructions.update({line.casefold() for line in lines if _is_sentence(line)})
    share = MIN_TEMPLATE_FRACTION * len(descriptions)
    min_forms = max(MIN_FORMS, min(SUFFICIENT_FORMS, share))
    frequent = {line for line, count in forms.items() if count >= min_forms}
    return frozenset(frequent | {line for line, count in instructions.items() if count >= max(MIN_INSTRUCTIONS, share)})


def without_template(text: str, template: Set[str]) -> str:
    """A description without the lines of a template; one that has nothing else is unchanged."""
    if not template:
        return text
    kept = [line for line, is_code in _lines(text) if is_code or line.strip().casefold() not in template]
    return "".join(kept).strip() or text


def is_form(line: str) -> bool:
    """Whether a line is a heading, a checkbox or a label with nothing after it."""
    return FORM.match(line) is not None


def _is_sentence(line: str) -> bool:
    if not line.endswith(SENTENCE_ENDS):
        return False
    return len(line.split(maxsplit=MIN_WORDS)) >= MIN_WORDS or (len(line) >= MIN_CHARACTERS and not line.isascii())


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a description with their ends, and whether each is between fences of code."""
    is_code = False
    for line in text.splitlines(keepends=True):
        yield line, is_code
        fences = len(JIRA_FENCE.findall(line)) if "{" in line else 0
        if (fences + line.lstrip().startswith(("```", "~~~"))) % 2:
            is_code = not is_code
