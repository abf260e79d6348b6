"""Words of prose in any language.

ASCII text is split at the signs between its words. Other text is normalised first, so that the spellings of a word that
Unicode allows are equal. Chinese and Japanese have no blanks between words, and Korean glues particles to them: their
words are the pairs of neighbouring characters, as in Lucene's CJKAnalyzer.
"""

import re
import unicodedata
from collections.abc import Mapping

WORD = re.compile(r"\w\w+")  # the words of bm25s's pattern (?u)\b\w\w+\b, in less time
# Ideographs with their iteration mark, Hiragana, Katakana without the dot between words, and Hangul.
CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
CJK_RUN = re.compile(f"[{CJK}]+")
RUN_OR_WORD = re.compile(rf"([{CJK}]+)|[^\W{CJK}]{{2,}}")
OTHER_WIDTH = re.compile("[\uff01-\uffdc]+")  # wide Latin letters and digits, narrow Katakana and Hangul


def find_words(text: str) -> list[str]:
    """The words of two and more characters of a text in order, normalised; see the module.

    A run of Chinese, Japanese or Korean characters gives its pairs, and one of a single character that: the words of
    ``Datei 打开文件`` are ``datei``, ``打开``, ``开文`` and ``文件``.
    """
    if text.isascii():
        return WORD.findall(text.lower())
    plain = normalise(text)
    if not CJK_RUN.search(plain):
        return WORD.findall(plain)
    found: list[str] = []
    for match in RUN_OR_WORD.finditer(plain):
        found += pairs_of(match[1]) if match[1] else [match[0]]
    return found


def normalise(text: str) -> str:
    """A text in which upper and lower case and the forms of a character are equal.

    The text is composed, ß is ss, and the Russian ё is what most texts write for it.
    """
    if text.isascii():
        return text.lower()
    return compose(text).casefold().replace("\u0451", "\u0435")


def compose(text: str) -> str:
    """A text whose letters and accents are one character where Unicode has it (NFC).

    Wide Latin letters and narrow Katakana get the usual width. Other compatibility characters, such as ™, stay.
    """
    usual = OTHER_WIDTH.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return unicodedata.normalize("NFC", usual)


def separate(text: str) -> str:
    """A composed text with blanks around its runs of Chinese, Japanese and Korean characters, which end identifiers.

    ``在FooBar中`` becomes `` 在 FooBar 中 ``.
    """
    return text if text.isascii() else CJK_RUN.sub(r" \g<0> ", compose(text))


def pairs_of(run: str) -> list[str]:
    """The pairs of neighbouring characters of a run; a single character by itself."""
    return [run[place : place + 2] for place in range(max(len(run) - 1, 1))]


def shared_phrases(weights: Mapping[str, float], first: str, second: str) -> dict[str, float]:
    """Words that two texts share, in which the pairs of a run are joined to the longest phrases that both texts have.

    ``打开``, ``开文`` and ``文件`` become ``打开文件`` where both texts have it.

    Args:
        weights: The weight of each shared word.
        first: A normalised text.
        second: Another one.

    Returns:
        The weight of each word and phrase; that of a phrase is the highest of its pairs.
    """
    found = {word: weight for word, weight in weights.items() if not CJK_RUN.match(word)}
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
    return found | {phrase: weight for phrase, weight in phrases.items() if everything.count(phrase) == 1}
