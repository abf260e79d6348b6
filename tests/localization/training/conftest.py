"""Corpora of a small data set of localization."""

import pytest
from small_localization import write_localization

from gedbd.localization.readers.changesets import read_localization


@pytest.fixture(scope="session")
def localization_folder(tmp_path_factory):
    return write_localization(tmp_path_factory.mktemp("localization"))


@pytest.fixture(scope="session")
def change_corpus(localization_folder):
    return read_localization(str(localization_folder), name="demo")


@pytest.fixture(scope="session")
def first_changes_corpus(tmp_path_factory):
    """The first change of a class induced all of its bugs: what earlier reports tell holds for later ones."""
    return read_localization(str(write_localization(tmp_path_factory.mktemp("first"), place=0)), name="demo")
