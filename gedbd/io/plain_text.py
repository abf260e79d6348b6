"""Text of strangers for terminals, logs, pages and Markdown: it steers no terminal, hides nothing and links nowhere."""

import re

# A joiner belongs to the spelling of Persian and Indic words and of emojis; beside Latin, Greek and Cyrillic letters it
# only hides.
JOINER = re.compile("(?<=[^\0-\u058f\u2000-\u206f])[\u200c\u200d](?=[^\0-\u058f\u2000-\u206f])")

# Underscores inside words, and brackets and parentheses that make no link, need no escape.
MARKDOWN_SIGNS = re.compile(r"[\\`*~|]|(?<!\w)_|_(?!\w)|(?<=\])[(\[:]")
LINK_SIGNS = re.compile(MARKDOWN_SIGNS.pattern + r"|[\[\]]")  # in the text of a link or an image
WORDS = re.compile(r"([\s|`]+)")
# What GitHub and other readers of Markdown make a link of, also where its signs are escaped: addresses, mail addresses,
# names, numbers of issues and advisories, hashes of commits; between dollar signs it is set as a formula.
REFERENCE = re.compile(
    r"//\S|www\.|(?:mailto|xmpp):|(?<![a-z0-9_])@[a-z0-9]|\w@[\w-]+\.\w|#\d|(?<![a-z0-9])(?:gh|ghsa|cve)-\w|\$"
    r"|(?<![a-z0-9])[0-9a-f]{7,64}(?![a-z0-9])",
    re.ASCII | re.IGNORECASE,
)
# The start of a heading, a quote or a list, before the sign that makes it one.
BLOCK_START = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))|^(?=#{1,6}(?:\s|$)|>|[-+=](?:[\s=-]|$))", re.ASCII)
BACKTICKS = re.compile(r"`+")


def printable(text: str, keep: str = "") -> str:
    """A text with a blank for each character that has no shape of its own, so that positions stay.

    These are control characters, such as ESC, line breaks and tabs, the controls of bidirectional text, zero-width
    characters, and halves of surrogate pairs. Letters of any script stay.

    Args:
        text: Any text.
        keep: Characters that stay, such as a line feed.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in JOINER.finditer(text)}
    return "".join(
        letter if letter.isprintable() or letter in keep or place in joiners else " "
        for place, letter in enumerate(text)
    )


def printable_line(text: str) -> str:
    """A printable text with single blanks between its words, and none around it."""
    return " ".join(printable(text).split())


def escape_markdown(text: str, signs: re.Pattern[str] = MARKDOWN_SIGNS) -> str:
    """A line that Markdown shows unchanged: no HTML, link, image, heading, list, emphasis or table cell.

    Titles come from trackers, where anyone may write them. Words that GitHub would make a reference of, such as
    ``@ann`` and ``#12``, become code: GitHub notifies nobody and closes no issue for what it reads in code.

    Args:
        text: The text; line breaks become blanks.
        signs: What is escaped outside code.
    """
    # Backticks are no part of a word, so that the code between two of them ends where the word does.
    parts = WORDS.split(printable_line(text))
    shown = [f"`{part}`" if REFERENCE.search(part) else _escaped(part, signs) for part in parts]
    return BLOCK_START.sub(r"\1\\", "".join(shown))


def _escaped(text: str, signs: re.Pattern[str]) -> str:
    return signs.sub(r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")


def code_block(text: str, language: str = "") -> str:
    """A text as a block of code in Markdown."""
    # A fence is longer than all others in the text, which would end the block.
    fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(text)), default=0))
    return f"{fence}{language}\n{printable(text, keep=chr(10))}\n{fence}"
