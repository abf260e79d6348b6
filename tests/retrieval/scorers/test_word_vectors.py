import math

import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.scorers import word_vectors

TITLES = ["crash of editor", "printer prints slowly", "editor crash", "", "unheard"]
BODIES = ["the editor crash https://x.org/crash", "printer", "", "", ""]
TINY = {"dim": 6, "min_count": 2, "epochs": 3, "sample": 0}
MODELS = {
    "word2vec": lambda **options: word_vectors.Word2Vec(**options),
    "dbow": lambda **options: word_vectors.Doc2Vec(**options),
    "dm": lambda **options: word_vectors.Doc2Vec(**options, distributed_memory=True),
}


def fit(name: str, titles=TITLES, bodies=BODIES, **options) -> tuple[word_vectors.GensimModel, pd.DataFrame]:
    model, table = MODELS[name](**TINY | options), pd.DataFrame({"title": titles, "description": bodies})
    model.fit(table)
    return model, table


def vector(model: word_vectors.Word2Vec, word: str) -> np.ndarray:
    return model.word_vectors_[model.vocabulary_.terms.index(word)]


@pytest.mark.parametrize("name", MODELS)
def test_title_and_body_are_apart_and_an_empty_one_is_zero(name):
    model, table = fit(name)
    vectors = model.encode(table)
    assert vectors.shape == (5, 12)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :6], axis=1), [1, 1, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, 6:], axis=1), [1, 1, 0, 0, 0], atol=1e-6)
    assert model.warnings_ == (f"{model.name}: documents without a known word: 2 of 5, score 0",)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("titles", [["", ""], ["of the", "a"], ["rare words", "others"]])
def test_a_corpus_without_frequent_words_has_zero_vectors_and_says_so(name, titles):
    model, table = fit(name, titles, ["", ""])
    assert not model.encode(table).any()
    assert model.warnings_[0] == f"{model.name}: no word occurs 2 times or more: all scores are 0"


def test_words_are_numbered_without_stop_words_and_addresses():
    vocabulary = Vocabulary()
    numbers = word_vectors.number_words(BODIES, vocabulary, learn=True)
    assert vocabulary.terms == ["editor", "crash", "printer"]
    assert [text.tolist() for text in numbers] == [[0, 1], [2], [], [], []]


def test_gensim_gets_long_texts_in_pieces():
    numbers = [np.zeros(word_vectors.MAX_WORDS + 3, dtype=np.int32), np.array([1])]
    texts = word_vectors.TrainingTexts(numbers, ["a", "b"], "", tagged=True)
    assert [(len(text.words), text.tags) for text in texts] == [(word_vectors.MAX_WORDS, [0]), (3, [0]), (1, [1])]


def test_word_vectors_are_gensims():
    from gensim.models import Word2Vec as GensimWord2Vec

    texts = [["crash", "editor"], ["printer", "prints", "slowly"], ["editor", "crash"], [], ["unheard"]]
    texts += [["editor", "crash"], ["printer"], [], [], []]
    expected = GensimWord2Vec(texts, vector_size=6, min_count=2, epochs=3, sg=1, sample=0, seed=0, workers=1).wv
    assert set(expected.key_to_index) == {"editor", "crash", "printer"}
    model, _ = fit("word2vec")
    for word in expected.key_to_index:
        np.testing.assert_allclose(vector(model, word), expected[word])
    assert not vector(model, "slowly").any()


# Of ten texts, three have "editor" and two have "printer".
@pytest.mark.parametrize(
    ("idf", "editor", "printer"), [(True, math.log(10 / 3), math.log(10 / 2)), (False, 1, 1)], ids=["idf", "equal"]
)
def test_a_text_is_the_weighted_mean_of_its_words(idf, editor, printer):
    model, _ = fit("word2vec", idf=idf)
    mean = 2 * editor * vector(model, "editor") + printer * vector(model, "printer")
    encoded = model.encode_texts(["editor printer editor slowly nobody"])[0]
    np.testing.assert_allclose(encoded, mean / np.linalg.norm(mean), rtol=1e-5)


@pytest.mark.parametrize("name", ["dbow", "dm"])
def test_an_inference_is_gensims_from_a_fixed_start_whatever_came_before(name, monkeypatch):
    model, _ = fit(name)
    start = word_vectors.start_vector(6, 0)[0]
    monkeypatch.setattr("gensim.models.doc2vec.pseudorandom_weak_vector", lambda size, seed_string: start.copy())
    model.model_.random = np.random.RandomState(0)
    expected = model.model_.infer_vector(["crash", "editor", "crash", "printer"])
    assert np.abs(expected - start).max() > 1e-6
    text = "crash editor crash slowly printer nobody"
    encoded = model.encode_texts([text])[0]
    np.testing.assert_allclose(encoded, expected / np.linalg.norm(expected), rtol=1e-5)
    assert (model.encode_texts(["printer printer", "", text])[2] == encoded).all()
