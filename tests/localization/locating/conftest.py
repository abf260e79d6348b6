"""A small repository whose history is known."""

import pytest
from git_repository import Repository

from gedbd.localization.locating.repository_index import open_repository

PARSER = b"class QuotedParser {\n    void parseQuoted() { delimiter(); }\n}\n"


@pytest.fixture
def make_repository(tmp_path):
    """Makes an empty repository of some name."""
    return lambda name="project.git": Repository(tmp_path / name)


@pytest.fixture
def repository(make_repository):
    """Four commits, of which the second adds the parser of quoted values."""
    made = make_repository()
    made.add(
        ("Begin the project", {"README": b"a project\n"}),
        ("Parse quoted values", {"src/QuotedParser.java": PARSER, "notes.txt": b"x\n"}),
        ("Print tables", {"src/TablePrinter.java": b"class TablePrinter { void print() { columns(); } }\n"}),
        ("Correct the manual", {"README": b"a project with a manual\n"}),
    )
    return made


@pytest.fixture
def open_index(tmp_path):
    """Opens the index of a repository in a folder of the test."""
    return lambda made, **options: open_repository(made.folder, tmp_path / "cache", **options)


@pytest.fixture
def index_of(open_index):
    """The index of a repository in a folder of the test, up to date."""

    def updated(made, **options):
        index = open_index(made, **options)
        index.update()
        return index

    return updated
