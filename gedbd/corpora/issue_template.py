"""Lines of a tracker's issue template, which say nothing about a report: headings, checkboxes, labels, instructions."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set

# A heading of Markdown or Jira, a checkbox, a line that is bold throughout, or a label with nothing behind it.
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
# A line belongs to the template if 1% of the descriptions have it, in small and large trackers at least so many. An
# instruction needs more copies: it looks like what a reporter writes.
FRACTION = 0.01
MIN_FORMS = 3
ENOUGH_FORMS = 20
MIN_INSTRUCTIONS = 20


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
    share = FRACTION * len(descriptions)
    enough = max(MIN_FORMS, min(ENOUGH_FORMS, share))
    found = {line for line, count in forms.items() if count >= enough}
    return frozenset(found | {line for line, count in instructions.items() if count >= max(MIN_INSTRUCTIONS, share)})


def without_template(text: str, template: Set[str]) -> str:
    """A description without the lines of a template; one that has nothing else is kept as it is.

    Args:
        text: The description.
        template: See ``template_lines``.
    """
    if not template:
        return text
    kept = [line for line, is_code in _lines(text) if is_code or line.strip().casefold() not in template]
    return "".join(kept).strip() or text


def is_form(line: str) -> bool:
    """Whether a line is a heading, a checkbox or a label with nothing behind it."""
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
