import numpy as np
import pandas as pd
import pytest

from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.questions.question_vectors import TitleBody

TABLE = pd.DataFrame(
    {"title": ["How to mount a disk", "", "The mail is slow"], "description": ["see https://x.org/a", "crash", ""]}
)


@pytest.fixture
def encoder(tiny):
    return LoadedEncoder(*tiny, max_tokens=32)


def test_title_and_body_are_encoded_apart(encoder):
    vectors = TitleBody(encoder, clean=False).encode(TABLE)
    assert vectors.shape == (3, 32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[[0, 2], :16], unit_rows(encoder.pool(list(TABLE["title"][[0, 2]]))), atol=1e-6)
    np.testing.assert_allclose(vectors[:2, 16:], unit_rows(encoder.pool(list(TABLE["description"][:2]))), atol=1e-6)
    assert not vectors[1, :16].any()
    assert not vectors[2, 16:].any()


def test_cleaning_removes_urls_and_stop_words_and_empty_texts_get_zeros(encoder):
    cleaned = TitleBody(encoder).encode(TABLE)
    expected = TitleBody(encoder, clean=False).encode(
        pd.DataFrame({"title": ["mount disk", "", "mail slow"], "description": ["see", "crash", ""]})
    )
    np.testing.assert_allclose(cleaned, expected, atol=1e-6)
    assert not TitleBody(encoder).encode(pd.DataFrame({"title": [""], "description": [" "]})).any()


def test_joined_texts_are_those_that_an_encoder_alone_reads(encoder):
    joined = TitleBody(encoder, clean=False, form="joined")
    vectors = joined.encode(TABLE)
    texts = ["How to mount a disk\nsee https://x.org/a", "crash", "The mail is slow"]
    assert vectors.shape == (3, joined.dim)
    np.testing.assert_allclose(vectors, unit_rows(encoder.pool(texts)), atol=1e-6)
    with pytest.raises(ValueError, match="form=apart of title and body is unknown: choose separate or joined"):
        TitleBody(encoder, form="apart")
