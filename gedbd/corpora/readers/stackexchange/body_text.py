"""Turn the body of a post, in the small HTML of Stack Exchange, into text, and keep its code blocks apart.

The site writes its HTML itself: tags are closed, and ``<`` and ``>`` are escaped everywhere else. So patterns suffice,
and are several times faster than a parser. Each takes time in proportion to the length of a body, also of a hostile one.
"""

import re
from html import unescape
from typing import NamedTuple

CODE_START = re.compile(r"<pre\b[^<>]*>", re.IGNORECASE)
CODE_END = re.compile(r"</pre\s*>", re.IGNORECASE)
BLOCK = re.compile(
    r"</?(?:p|div|br|hr|[uod]l|li|d[td]|h[1-6]|blockquote|pre|table|t(?:head|body|r|d|h))(?:[\s/][^<>]*)?>",
    re.IGNORECASE,
)
TAG = re.compile(r"<[a-zA-Z/!][^<>]*>")
MARK = r"\s?(?:<strong>)?\s?possible\sduplicates?(?:\sof)?\s?:?\s?(?:</strong>)?\s?:?\s?(?:<br\s?/?>)?"
# A quote with the link, which the site itself put in front of a body until 2013.
QUOTED = re.compile(rf"<blockquote>\s?(?:<p>)?{MARK}", re.IGNORECASE)
QUOTE_END = "</blockquote>"
# A paragraph with nothing but the mark and links.
LINK = r"<a\s[^<>]*>[^<>]*(?:</?(?:b|code|em|i|strong|su[bp])>[^<>]*)*</a>"
PARAGRAPH = re.compile(rf"<p>{MARK}\s?(?:{LINK}(?:[\s,;.]|<br\s?/?>)*)+</p>", re.IGNORECASE)


class BodyText(NamedTuple):
    """The text of a body.

    Attributes:
        text: Text without code blocks, one line a paragraph, list item or other block; code within a line stays.
        code: The code blocks, one after the other.
        had_mark: Whether a mark "Possible Duplicate" with its links was removed.
    """

    text: str
    code: str
    had_mark: bool


def body_text(html: str) -> BodyText:
    """Convert a body; see ``BodyText``."""
    code: list[str] = []
    if "<pre" in html or "<PRE" in html:
        html, code = split_code(html)
    html = " ".join(html.split())
    marked = html
    # This test in front of the patterns, which few bodies pass, saves a third of the time.
    if "ossible" in html or "OSSIBLE" in html:
        html = without_mark(html)
    return BodyText(plain_text(html), "\n".join(code), html != marked)


def split_code(html: str) -> tuple[str, list[str]]:
    """The body with a line break in place of each code block, and the text of the blocks.

    A block without an end extends to the end of the body.
    """
    prose: list[str] = []
    code: list[str] = []
    position = 0
    while start := CODE_START.search(html, position):
        end = CODE_END.search(html, start.end())
        code_end = end.start() if end else len(html)
        prose.append(html[position : start.start()])
        code.append(unescape(TAG.sub("", html[start.end() : code_end])).strip("\r\n"))
        position = end.end() if end else len(html)
    return "<br>".join([*prose, html[position:]]), code


def without_mark(html: str) -> str:
    """The body, with single spaces, without the marks "Possible Duplicate: <link>"."""
    html = PARAGRAPH.sub("", html)
    parts: list[str] = []
    position = 0
    while mark := QUOTED.search(html, position):
        end = html.find(QUOTE_END, mark.end())
        if end < 0:
            break
        stop = end + len(QUOTE_END)
        # A quote without a link is somebody's words.
        kept_to = mark.start() if "href=" in html[mark.start() : end] else stop
        parts.append(html[position:kept_to])
        position = stop
    return "".join([*parts, html[position:]])


def plain_text(html: str) -> str:
    """The text of HTML with single spaces: a line for each block, without empty lines."""
    text = TAG.sub("", BLOCK.sub("\n", html))
    if "&" in text:
        text = unescape(text).replace("\xa0", " ")
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join([line for line in lines if line])
