"""BM25 over a growing index equals bm25s to the last bit."""

import sys
import threading

import bm25s
import numpy as np
import pytest

from gedbd.retrieval.inverted_index import TAIL, InvertedIndex, Vocabulary, words


def build(texts, step=None):
    vocabulary, index = Vocabulary(), InvertedIndex()
    numbers = vocabulary(texts, learn=True)
    for start in range(0, len(texts), step or len(texts)):
        index.add(numbers[start : start + (step or len(texts))])
    return vocabulary, index


def theirs(texts, query):
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(texts, show_progress=False)
    known = [word for word in query if word in index.vocab_dict]
    return index.get_scores(known) if known else np.zeros(len(texts))


def random_texts(seed, count):
    generator = np.random.default_rng(seed)
    return [
        [f"w{number}" for number in generator.zipf(1.4, size=size) % 90] for size in generator.integers(0, 25, count)
    ]


@pytest.mark.parametrize("seed", range(2))
def test_random_texts_score_as_in_bm25s(seed):
    texts = random_texts(seed, 200)
    vocabulary, index = build(texts)
    for query in [*texts[:20], *random_texts(seed + 50, 20), ["w1", "unknown", "w1", "other"]]:
        scores = index.scores(vocabulary([query], learn=False)[0])
        np.testing.assert_array_equal(scores, theirs(texts, query))


@pytest.mark.parametrize("before", [0, 1, 2, 100, TAIL, TAIL + 1, TAIL + 88])
def test_before_gives_the_index_of_the_first_texts_only(before):
    texts = random_texts(7, TAIL + 90)
    vocabulary, whole = build(texts, step=TAIL - 3)
    first = InvertedIndex()
    first.add(vocabulary(texts[:before], learn=False))
    for query in vocabulary([*texts[-10:], ["w1", "w1", "strange"]], learn=False):
        np.testing.assert_array_equal(whole.scores(query, before), first.scores(query))
        terms = np.unique(query)
        np.testing.assert_array_equal(whole.frequency(terms, before), first.frequency(terms))


@pytest.mark.parametrize("step", [1, 7, TAIL, TAIL + 1])
def test_adding_bit_by_bit_is_adding_at_once(step):
    texts = random_texts(1, 2 * TAIL + 30)
    (vocabulary, whole), (_, parts) = build(texts), build(texts, step)
    assert len(whole) == len(parts) == len(texts)
    for query in vocabulary(texts[::100], learn=False):
        np.testing.assert_array_equal(parts.scores(query), whole.scores(query))
        np.testing.assert_array_equal(parts.frequency(np.unique(query)), whole.frequency(np.unique(query)))


def test_who_asks_while_another_adds_sees_whole_additions():
    index, wrong, done = InvertedIndex(), [], threading.Event()

    def ask():
        while not done.is_set():
            scores = index.scores(np.array([3, 5]))
            if len(scores) % 2 or not (scores[1::2] > 0).all():
                wrong.append(scores)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    before, _ = sys.getswitchinterval(), sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(TAIL // 2 + 60):
            index.add([np.array([1, 2], dtype=np.int32), np.array([3], dtype=np.int32)])
    finally:
        done.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert not wrong


def test_words_are_those_of_bm25s():
    texts = ["The Crash when I paste a PICTURE, x", "", "snake_case don't Ünïcode 42 1.5e9 a_b the-and", "\ud800 x\nyy"]
    found = words(texts)
    assert found[:2] == [["crash", "when", "paste", "picture"], []]
    assert words(["straße, and 日本語"]) == [["strasse", "日本", "本語"]]
    assert found == bm25s.tokenize(texts, stopwords="en", return_ids=False, show_progress=False)


def test_terms_are_numbered_in_order_and_unknown_words_are_below_zero():
    vocabulary = Vocabulary(["mail"])
    assert [text.tolist() for text in vocabulary([["lost", "mail", "lost"], []], learn=True)] == [[1, 0, 1], []]
    assert vocabulary.terms == ["mail", "lost"]
    assert vocabulary([["new", "mail", "other", "new"]], learn=False)[0].tolist() == [-1, 0, -2, -1]
