"""What the tests of the API share: the demo corpus, an object that encodes, and a way of running commands."""

import hashlib
import sys
from importlib import import_module

import numpy as np
import pytest

import gedbd
from gedbd.__main__ import module_of


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
def command(tmp_path, monkeypatch, cache):
    """Runs a command in a folder of its own."""
    monkeypatch.setenv("GEDBD_CACHE", cache)
    monkeypatch.chdir(tmp_path)

    def run(name, *options):
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        import_module(module_of(name)).main()

    return run
