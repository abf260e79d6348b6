"""What the tests of the API share: the demo corpus, an object that encodes, and a way of running commands."""

import hashlib

import numpy as np
import pytest

import gedbd


class HashedWords:
    """Counts words by their hash, as a stranger's model would: it only has ``encode``."""

    def encode(self, sentences, dim=64):
        vectors = np.zeros((len(sentences), dim))
        for row, text in enumerate(sentences):
            for word in text.lower().split():
                vectors[row, int(hashlib.md5(word.encode()).hexdigest(), 16) % dim] += 1
        return vectors


@pytest.fixture(scope="session")
def demo():
    return gedbd.load_corpus("demo")


@pytest.fixture
def hashed_words():
    return HashedWords()


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def command(run_command, monkeypatch, cache):
    """Runs commands in a folder of its own, with one cache for all tests."""
    monkeypatch.setenv("GEDBD_CACHE", cache)
    return run_command
