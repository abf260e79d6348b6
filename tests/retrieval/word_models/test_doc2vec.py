import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.word_models.doc2vec import Doc2Vec, start_vector

TITLES = ["crash of editor", "printer prints slowly", "editor crash", "", "unheard"]
BODIES = ["the editor crash", "printer", "", "", ""]


def table(titles=TITLES, bodies=BODIES) -> pd.DataFrame:
    return pd.DataFrame({"title": titles, "description": bodies})


@pytest.fixture(scope="module", params=[False, True], ids=["dbow", "dm"])
def fitted(request) -> Doc2Vec:
    model = Doc2Vec(dim=6, min_count=2, epochs=3, sample=0, distributed_memory=request.param)
    model.fit(table())
    return model


def test_an_inference_is_gensims_from_a_start_that_is_fixed(fitted, monkeypatch):
    words = ["crash", "editor", "crash", "printer"]
    start = start_vector(6, 0)[0]
    monkeypatch.setattr("gensim.models.doc2vec.pseudorandom_weak_vector", lambda size, seed_string: start.copy())
    fitted.model_.random = np.random.RandomState(0)
    expected = fitted.model_.infer_vector(words)
    assert np.abs(expected - start).max() > 1e-6
    found = fitted.encode_texts(["crash editor crash slowly printer nobody"])[0]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), rtol=1e-5)


def test_a_text_has_the_same_vector_whatever_came_before(fitted):
    alone = fitted.encode_texts(["editor crash"])
    after = fitted.encode_texts(["printer printer", "", "editor crash"])
    assert (after[2] == alone[0]).all()


def test_title_and_body_are_apart_and_an_empty_one_is_zero(fitted):
    vectors = fitted.encode(table())
    np.testing.assert_allclose(np.linalg.norm(vectors[:, :6], axis=1), [1, 1, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, 6:], axis=1), [1, 1, 0, 0, 0], atol=1e-6)
    assert fitted.warnings_ == ("doc2vec: documents without a known word: 2 of 5, score 0",)


def test_a_corpus_without_frequent_words_has_zero_vectors_and_says_so():
    model = Doc2Vec(dim=6, min_count=2, epochs=1)
    model.fit(table(["", "rare"], ["", ""]))
    assert not model.encode(table(["", "rare"], ["", ""])).any()
    assert model.warnings_ == ("doc2vec: no word occurs 2 times or more: all scores are 0",)


def test_documents_of_the_same_words_are_the_nearest():
    titles = ["crash editor window", "printer paper ink"] * 20
    model = Doc2Vec(dim=8, min_count=1, epochs=40, sample=0)
    model.fit(table(titles, [""] * 40))
    first, second, third = model.encode_texts(["crash editor", "window editor", "ink paper"])
    assert first @ second > first @ third + 0.1
