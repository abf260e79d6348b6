"""Words of prose and of source code in any language.

Non-ASCII text is normalised first, so that equivalent Unicode spellings of a word are equal. Chinese and Japanese have
no blanks between words, and Korean appends particles: their words are character bigrams, as in Lucene's CJKAnalyzer.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

WORD = re.compile(r"\w\w+")  # matches as (?u)\b\w\w+\b of bm25s, but faster
# Ideographs with iteration mark, Hiragana, Katakana without the middle dot, and Hangul.
CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
CJK_RUN = re.compile(f"[{CJK}]+")
RUN_OR_WORD = re.compile(rf"([{CJK}]+)|[^\W{CJK}]{{2,}}")
OTHER_WIDTH = re.compile("[\uff01-\uffdc]+")  # wide Latin letters and digits, narrow Katakana and Hangul
PUNCTUATION = ".,:;!?()[]{}\"'"
URL = re.compile(r"""\b(?:https?|ftp)://[^\s<>"'|\])}]*[^\s<>"'|\])}.,:;!?]""")
MAX_CHARACTERS = 10_000  # of a text; the rest is mostly a log
MAX_IDENTIFIERS = 200
MAX_NAME_LENGTH = 200  # a longer one is data, such as Base64
MAX_ERROR_LINES = 20
MIN_LINE_LENGTH = 15
MAX_LINE_LENGTH = 120
# It also matches numbers: a lookahead for a letter would take quadratic time for many digits.
NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*|\d\w*")
# camelCase, snake_case, 0x00ff, MT5202
IDENTIFIER = re.compile(r"[a-z]\w*[A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|^0x[0-9a-fA-F]+$|^[A-Z]+\d{2,}$")
ERROR_WORD = re.compile(r"error|exception|fail|fatal|cannot|can't|could not|unable|crash|assert|denied|invalid")
# The same in Chinese, Japanese, Korean and Russian.
ANY_ERROR_WORD = re.compile(
    f"{ERROR_WORD.pattern}|错误|錯誤|异常|異常|失败|失敗|崩溃|无法|エラー|例外|できません|오류|에러|예외|실패"
    "|ошибк|исключени|не удалось"
)
NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
BLANKS = re.compile(r"\W+")
# HTTPServer2 has the parts HTTP, Server, 2: capitals up to the last one before a small letter, a capital and small
# letters, digits.
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MAX_WORD_CHARS = 100  # a longer word is data, such as Base64
MAX_CACHED_WORDS = 1_000_000
KEYWORDS = """
abstract assert boolean break byte case catch char class const continue default do double else enum extends false final
finally float for goto if implements import instanceof int interface long native new null package private protected
public return short static strictfp super switch synchronized this throw throws transient true try void volatile while
"""
JAVA_KEYWORDS = frozenset(KEYWORDS.split())


def find_words(text: str) -> list[str]:
    """The normalised words of two or more characters of a text, in order.

    A run of Chinese, Japanese or Korean characters gives its bigrams, or its only character: the words of
    ``Datei 打开文件`` are ``datei``, ``打开``, ``开文`` and ``文件``.
    """
    if text.isascii():
        return WORD.findall(text.lower())
    normalised = normalise(text)
    if not CJK_RUN.search(normalised):
        return WORD.findall(normalised)
    words: list[str] = []
    for match in RUN_OR_WORD.finditer(normalised):
        words += pairs_of(match[1]) if match[1] else [match[0]]
    return words


def normalise(text: str) -> str:
    """Composes and case-folds a text, so that ß becomes ss, and replaces the Russian ё as most texts do."""
    if text.isascii():
        return text.lower()
    return compose(text).casefold().replace("\u0451", "\u0435")


def compose(text: str) -> str:
    """Normalises a text to NFC, and wide Latin letters and narrow Katakana to the usual width.

    Other compatibility characters, such as ™, stay.
    """
    usual = OTHER_WIDTH.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return unicodedata.normalize("NFC", usual)


def separate(text: str) -> str:
    """Composes a text and puts blanks around Chinese, Japanese and Korean runs: ``在FooBar`` becomes `` 在 FooBar``."""
    return text if text.isascii() else CJK_RUN.sub(r" \g<0> ", compose(text))


def pairs_of(run: str) -> list[str]:
    """The character bigrams of a run, or its only character."""
    return [run[start : start + 2] for start in range(max(len(run) - 1, 1))]


def shared_phrases(weights: Mapping[str, float], first: str, second: str) -> dict[str, float]:
    """Joins the bigrams that two texts share into the longest phrases that both contain.

    ``打开``, ``开文`` and ``文件`` become ``打开文件`` if both texts contain it.

    Returns:
        The weight of each word and phrase; that of a phrase is the maximum of its bigrams.
    """
    words = {word: weight for word, weight in weights.items() if not CJK_RUN.match(word)}
    phrases: dict[str, float] = {}
    for run in CJK_RUN.findall(first):
        phrase = ""
        for pair in pairs_of(run):
            if pair not in weights:
                phrase = ""
                continue
            longer = phrase + pair[-1]
            weight = weights[pair]
            if phrase and longer in second:
                weight = max(weight, phrases.pop(phrase))
                phrase = longer
            else:
                phrase = pair
            phrases[phrase] = max(weight, phrases.get(phrase, 0.0))
    everything = " ".join(phrases)
    # A phrase that is part of another one occurs more than once.
    return words | {phrase: weight for phrase, weight in phrases.items() if everything.count(phrase) == 1}


@cache
def stop_words() -> frozenset[str]:
    """The English stop words of scikit-learn, from a copy, since its import is slow."""
    return frozenset((files("gedbd.text") / "stop_words.txt").read_text(encoding="utf-8").split())


def without_stop_words(text: str) -> str:
    """Removes URLs and stop words: ``How do I mount https://x.org/y on boot?`` becomes ``mount boot?``.

    A text that has only stop words keeps them.
    """
    words = URL.sub(" ", text).split()
    kept = [word for word in words if word.strip(PUNCTUATION).lower() not in stop_words()]
    return " ".join(kept or words)


class CodeWords:
    """Extracts lower-case words from texts: each identifier and its parts.

    Identifiers are split at changes of case, digits and underscores: ``HTTPServer`` gives ``httpserver``, ``http`` and
    ``server``. Words of one character or more than ``MAX_WORD_CHARS`` are omitted. Non-ASCII words are not split, but
    runs of Chinese, Japanese and Korean characters give bigrams.

    Args:
        left_out: Lower-case words to omit; None for English stop words.
        java_keywords: Whether to omit the keywords of Java too.
    """

    def __init__(self, left_out: Iterable[str] | None = None, java_keywords: bool = False) -> None:
        words = stop_words() if left_out is None else frozenset(left_out)
        self._left_out = words | JAVA_KEYWORDS if java_keywords else words
        self._cache: dict[str, list[str]] = {}

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        """The words of each text in order."""
        return [self.of_text(text) for text in texts]

    def of_text(self, text: str) -> list[str]:
        """The words of a text in order, each identifier before its parts."""
        kept: list[str] = []
        cache = self._cache
        for word in WORD.findall(separate(text)):
            words = cache.get(word)
            if words is None:
                words = self._split_word(word)
            kept += words
        return kept

    def _split_word(self, word: str) -> list[str]:
        """Computes the words of an identifier and caches them."""
        is_run = CJK_RUN.match(word) is not None
        if len(word) > MAX_WORD_CHARS and not is_run:
            return []
        parts = [part.lower() for part in PART.findall(word)] if word.isascii() else []
        # __init__ gives only init, and __ gives nothing.
        whole = parts if len(parts) < 2 and word.isascii() else [normalise(word), *parts]
        whole = pairs_of(word) if is_run else whole
        words = [part for part in whole if len(part) > 1 and part not in self._left_out]
        if len(self._cache) < MAX_CACHED_WORDS:
            self._cache[word] = words
        return words


def find_identifiers(text: str) -> list[str]:
    """The distinct identifiers of a text, in lower case, in order.

    Identifiers are names in camel or snake case, dotted names and their last parts, hexadecimal numbers, and codes such
    as ``MT5202``. At most ``MAX_IDENTIFIERS`` of the first ``MAX_CHARACTERS`` characters are returned.
    """
    identifiers: dict[str, None] = {}
    for name in dict.fromkeys(NAME.findall(separate(text[:MAX_CHARACTERS]))):
        # Most names are plain words, which this test skips faster than a pattern.
        if (name.isalpha() and name.islower()) or len(name) > MAX_NAME_LENGTH:
            continue
        if "." in name:
            identifiers[name.lower()] = None
            name = name.rpartition(".")[2]
        if IDENTIFIER.search(name):
            identifiers[name.lower()] = None
    return list(identifiers)[:MAX_IDENTIFIERS]


def find_error_lines(text: str) -> list[str]:
    """The distinct lines of a text that contain an error word, in order.

    Numbers become 0 and punctuation blanks, so that lines that differ in an address or a time are equal. At most
    ``MAX_ERROR_LINES`` of the first ``MAX_CHARACTERS`` characters are returned, each cut to ``MAX_LINE_LENGTH``.
    """
    lines: dict[str, None] = {}
    # Lower-casing once is ten times as fast as a pattern that ignores case.
    lowered = normalise(text[:MAX_CHARACTERS])
    error_word = ERROR_WORD if text.isascii() else ANY_ERROR_WORD
    if not error_word.search(lowered):
        return []
    for line in lowered.splitlines():
        if error_word.search(line):
            normalised = BLANKS.sub(" ", NUMBER.sub("0", line)).strip()
            if len(normalised) >= MIN_LINE_LENGTH:
                lines[normalised[:MAX_LINE_LENGTH]] = None
    return list(lines)[:MAX_ERROR_LINES]
