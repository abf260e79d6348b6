import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.retrieval.word_models.gensim_training import MAX_WORDS, TrainingTexts, number_words, word_counts
from gedbd.retrieval.word_models.word2vec import Word2Vec

TITLES = ["crash of editor", "printer prints slowly", "editor crash", "", "unheard"]
BODIES = ["the editor crash https://x.org/crash", "printer", "", "", ""]
TINY = {"dim": 6, "min_count": 2, "epochs": 2, "sample": 0}
HASHES = """
import numpy as np, pandas as pd, hashlib
from gedbd.retrieval.word_models.word2vec import Word2Vec
from gedbd.retrieval.word_models.doc2vec import Doc2Vec
table = pd.DataFrame({"title": ["crash of editor", "slow printer"] * 3, "description": ["editor crash", ""] * 3})
for model in (Word2Vec(dim=5, sample=0), Doc2Vec(dim=5, sample=0), Doc2Vec(dim=5, sample=0, distributed_memory=True)):
    model.fit(table)
    print(hashlib.sha256(model.encode(table).tobytes()).hexdigest())
"""


def table(titles=TITLES, bodies=BODIES) -> pd.DataFrame:
    return pd.DataFrame({"title": titles, "description": bodies})


@pytest.fixture(scope="module")
def fitted() -> Word2Vec:
    model = Word2Vec(**TINY)
    model.fit(table())
    return model


def vector(model: Word2Vec, word: str) -> np.ndarray:
    return model.word_vectors_[model.vocabulary_.terms.index(word)]


def test_words_are_numbered_without_stop_words_and_addresses():
    vocabulary = Vocabulary()
    numbers = number_words(BODIES, vocabulary, learn=True, label="")
    assert vocabulary.terms == ["editor", "crash", "printer"]
    assert [text.tolist() for text in numbers] == [[0, 1], [2], [], [], []]


def test_words_are_counted_and_unknown_ones_are_not():
    counts = word_counts([np.array([2, 0, 2, -1]), np.array([], dtype=np.int32), np.array([5])], 3)
    assert counts.toarray().tolist() == [[1, 0, 2], [0, 0, 0], [0, 0, 0]]


def test_gensim_gets_long_texts_in_pieces():
    with TrainingTexts(
        [np.zeros(MAX_WORDS + 3, dtype=np.int32), np.array([1])], ["a", "b"], 1, "", tagged=True
    ) as texts:
        given = [(len(text.words), text.tags) for text in texts]
    assert given == [(MAX_WORDS, [0]), (3, [0]), (1, [1])]


def test_word_vectors_are_gensims(fitted):
    from gensim.models import Word2Vec as GensimWord2Vec

    texts = [["crash", "editor"], ["printer", "prints", "slowly"], ["editor", "crash"], [], ["unheard"]]
    texts += [["editor", "crash"], ["printer"], [], [], []]
    expected = GensimWord2Vec(texts, vector_size=6, min_count=2, epochs=2, sg=1, sample=0, seed=0, workers=1).wv
    assert set(expected.key_to_index) == {"editor", "crash", "printer"}
    for word in expected.key_to_index:
        np.testing.assert_allclose(vector(fitted, word), expected[word])
    assert not vector(fitted, "slowly").any()


def test_a_text_is_the_idf_weighted_mean_of_its_words(fitted):
    # Of ten texts, three have "editor" and two have "printer".
    mean = 2 * math.log(10 / 3) * vector(fitted, "editor") + math.log(10 / 2) * vector(fitted, "printer")
    found = fitted.encode_texts(["editor printer editor slowly nobody"])[0]
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), rtol=1e-5)


def test_without_idf_words_weigh_the_same():
    model = Word2Vec(**TINY, idf=False)
    model.fit(table())
    mean = vector(model, "editor") + vector(model, "printer")
    np.testing.assert_allclose(model.encode_texts(["editor printer"])[0], mean / np.linalg.norm(mean), rtol=1e-5)


def test_title_and_body_are_apart_and_an_empty_one_is_zero(fitted):
    vectors = fitted.encode(table())
    assert vectors.shape == (5, 12)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :6], axis=1), [1, 1, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, 6:], axis=1), [1, 1, 0, 0, 0], atol=1e-6)
    assert fitted.warnings_ == ("word2vec: documents without a word that has a vector: 2 of 5, score 0",)


@pytest.mark.parametrize("titles", [["", ""], ["of the", "a"], ["rare words", "others"]])
def test_a_corpus_without_frequent_words_has_zero_vectors_and_says_so(titles):
    model = Word2Vec(**TINY)
    model.fit(table(titles, ["", ""]))
    assert not model.encode(table(titles, ["", ""])).any()
    assert model.warnings_[0] == "word2vec: no word occurs 2 times or more: all scores are 0"


def test_gensim_that_is_missing_is_told(monkeypatch):
    monkeypatch.setattr("gedbd.retrieval.word_models.gensim_training.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^gensim is not installed: pip install 'gedbd\[questions\]'$"):
        Word2Vec()


@pytest.mark.slow  # two processes that import gensim
def test_two_processes_learn_the_same(monkeypatch):
    found = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(subprocess.run([sys.executable, "-c", HASHES], capture_output=True, check=True).stdout)
    assert found[0] == found[1]
    assert len(set(found[0].split())) == 3
