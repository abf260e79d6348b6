"""Which lines of a source file hold code: those that are neither blank nor only comment."""

import re
from functools import cache
from pathlib import PurePosixPath

# A text that does not end on its line is taken to end there, as quotes also occur as apostrophes.
QUOTED = r'"(?:\\.|[^"\\\n])*(?:"|$)|\'(?:\\.|[^\'\\\n])*(?:\'|$)'
TEXT_BLOCK = r'"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|\Z)'
TEMPLATE = r"`(?:\\[\s\S]|[^`\\])*(?:`|\Z)"
TRIPLE_QUOTED = rf"{TEXT_BLOCK}|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|\Z)"
BLOCK = r"/\*[\s\S]*?(?:\*/|\Z)"
LINE = r"//[^\n]*"
HASH = r"\#[^\n]*"
MARKUP = r"<!--[\s\S]*?(?:-->|\Z)"

# Of the languages of each suffix, as regular expressions: a comment, over several lines or up to the end of its line,
# and a text in quotes, in which the signs of a comment mean nothing.
SYNTAXES = {
    (".java", ".kt", ".kts", ".scala", ".groovy", ".aj", ".cs", ".swift", ".dart"): (
        f"{BLOCK}|{LINE}",
        f"{TEXT_BLOCK}|{QUOTED}",
    ),
    (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".rs", ".proto"): (f"{BLOCK}|{LINE}", QUOTED),
    (".js", ".jsx", ".mjs", ".ts", ".tsx", ".go"): (f"{BLOCK}|{LINE}", f"{TEMPLATE}|{QUOTED}"),
    (".css",): (BLOCK, QUOTED),
    (".php",): (f"{BLOCK}|{LINE}|{HASH}", QUOTED),
    # A text that is a statement of its own, such as a docstring, is a comment.
    (".py", ".pyi"): (rf"{HASH}|^[ \t]*(?:{TRIPLE_QUOTED})(?=[ \t]*(?:\#.*)?$)", f"{TRIPLE_QUOTED}|{QUOTED}"),
    (".rb", ".pl", ".pm", ".r"): (HASH, QUOTED),
    (".sh", ".bash", ".yaml", ".yml", ".toml", ".cmake"): (rf"(?<![^\s;]){HASH}", QUOTED),
    (".properties",): (r"^[ \t]*[#!][^\n]*", r"(?!)"),
    (".xml", ".html", ".htm", ".xhtml", ".svg"): (MARKUP, r"(?!)"),
    (".sql",): (rf"{BLOCK}|--[^\n]*", QUOTED),
}
BY_SUFFIX = {suffix: syntax for suffixes, syntax in SYNTAXES.items() for suffix in suffixes}
SIGN = re.compile(r"[^\n]")


def code_lines(source: str, path: str) -> set[int]:
    r"""The numbers, from 1, of the lines that hold more than blanks and comments.

    ``x(); // why`` is code, and so is ``"// a text"``; the lines of ``/* ... */`` are not. The language is that of the
    suffix; for an unknown one, all lines that are not blank count as code.

    Args:
        source: The whole file; lines end with ``\n``.
        path: Its path.
    """
    pattern = _tokens(PurePosixPath(path).suffix.lower())
    if pattern is not None:
        source = pattern.sub(_without_comment, source)
    return {number for number, line in enumerate(source.split("\n"), start=1) if line.strip()}


@cache
def _tokens(suffix: str) -> re.Pattern[str] | None:
    """A pattern that finds comments and texts from left to right; None for an unknown suffix."""
    syntax = BY_SUFFIX.get(suffix)
    if syntax is None:
        return None
    comment, text = syntax
    return re.compile(f"(?P<comment>{comment})|{text}", re.MULTILINE)


def _without_comment(match: re.Match[str]) -> str:
    """Blanks for a comment, with its line breaks; a text as it is."""
    return match[0] if match["comment"] is None else SIGN.sub(" ", match[0])
