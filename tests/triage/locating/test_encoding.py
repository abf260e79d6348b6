"""Vectors of commits and reports beside the words."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from gedbd.encoders.encoder import load_tiny_encoder
from gedbd.retrieval.changes.history import ChangeQuery
from gedbd.triage.locating.encoding import LazyEncoder

LOAD = partial(load_tiny_encoder, "tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0)


@pytest.fixture
def encoder():
    return LazyEncoder(LOAD, {"name": "tiny", "max_tokens": 32})


def test_a_report_is_encoded_and_a_long_one_is_told(repository, open_index, encoder):
    index = open_index(repository, encoder=encoder)
    index.update()
    query, warnings = index.encoded(ChangeQuery("Quoted values", "when pasting"))
    assert warnings == ()
    assert np.linalg.norm(query.vector) == pytest.approx(1)
    assert index.encoded(query) == (query, ())
    long, warnings = index.encoded(ChangeQuery("Quoted values", "when pasting " * 100))
    assert "the encoder reads the first 32 of the report's" in warnings[0]
    assert index.locate(long, top_k=1)[0].rank == 1


def test_vectors_of_another_encoder_are_not_used(repository, open_index, encoder):
    index = open_index(repository, encoder=encoder)
    index.update()
    assert open_index(repository, encoder=encoder).update().num_added == 0
    assert open_index(repository).update().num_added == 4
    other = LazyEncoder(LOAD, {"name": "tiny", "max_tokens": 16})
    assert other.key != encoder.key
    assert open_index(repository, encoder=other).update().num_added == 4


def test_commits_are_encoded_by_message_and_paths(encoder):
    table = pd.DataFrame({"title": ["a"], "description": ["b"], "paths": ["c\nd"], "diff": ["e"]})
    np.testing.assert_allclose(encoder.commits(table), LOAD().encode(["a\nb\nc\nd"]), rtol=1e-5)
