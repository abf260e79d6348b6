import bm25s

from gedbd.retrieval.vocabulary import Vocabulary, words


def test_words_are_those_of_bm25s():
    texts = [
        "The Crash when I paste a PICTURE, x",
        "",
        "snake_case don't Ünïcode 42 1.5e9 a_b the-and",
        "\ud800 x\nyy",
    ]
    found = words(texts)
    assert found[:2] == [["crash", "when", "paste", "picture"], []]
    assert words(["straße, and 日本語"]) == [["strasse", "日本", "本語"]]
    assert found == bm25s.tokenize(texts, stopwords="en", return_ids=False, show_progress=False)


def test_terms_are_numbered_in_order_and_unknown_words_are_below_zero():
    vocabulary = Vocabulary(["mail"])
    assert [text.tolist() for text in vocabulary([["lost", "mail", "lost"], []], learn=True)] == [[1, 0, 1], []]
    assert vocabulary.terms == ["mail", "lost"]
    assert vocabulary([["new", "mail", "other", "new"]], learn=False)[0].tolist() == [-1, 0, -2, -1]
    vocabulary.forget(1)
    assert vocabulary.terms == ["mail"]
    assert vocabulary([["lost"]], learn=True)[0].tolist() == [1]
