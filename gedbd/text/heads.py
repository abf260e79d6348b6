"""The beginnings of long texts."""

# Characters to read for each token that is wanted: far more than a token has on average, so that the rest of a very
# long text seldom needs to be read.
CHARACTERS_PER_TOKEN = 16


def first_words(text: str, characters: int) -> str:
    """The first words of a text, within so many characters; empty if the first word is longer."""
    if len(text) <= characters:
        return text
    # Cut between words: a part of a word has other tokens than the whole word.
    return text[: max(text.rfind(" ", 0, characters), text.rfind("\n", 0, characters), 0)]
