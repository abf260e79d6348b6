"""Partial clones: commits whose objects are missing are left out and counted, and nothing is fetched."""

import numpy as np
import pandas as pd
import pytest
from git_repository import FastImport, read_history
from git_repository import git as run

from gedbd.corpora.corpus import Corpus
from gedbd.localization.readers.git import read_git
from gedbd.localization.repository.commit_history import incomplete_commits, list_commits
from gedbd.localization.repository.git_command import Git

pytestmark = pytest.mark.integration

WARNING = (
    "{} commits are left out: their objects are missing, as in a partial clone; git fetch --refetch --no-filter "
    "fetches them"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A clone with the files of the last commit alone can read commits 2, 4 and 6."""
    made = FastImport()
    made.commit(b"one", [("a.txt", b"1\n"), ("inner/b.txt", b"b\n")], parents=[])
    made.commit(b"two", [("inner/deep/c.txt", b"c\n"), ("module", ("160000", "1" * 40))])
    made.commit(b"three", [("a.txt", b"2\n")])
    made.commit(b"four")
    made.commit(b"fixes bug 7", [("a.txt", b"3\n")])
    made.commit(b"six", [("d.txt", b"d\n")])
    folder = tmp_path_factory.mktemp("missing") / "whole.git"
    ids = made.write(folder)
    run("-C", folder, "config", "uploadpack.allowFilter", "true")
    run("-C", folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder, ids


@pytest.fixture
def clone(repository, tmp_path):
    """Clones with some filter."""

    def made(what="blob:none", *options):
        run("clone", "-q", f"--filter={what}", *options, f"file://{repository[0]}", tmp_path / "clone")
        return tmp_path / "clone"

    return made


def test_commits_without_their_files_are_left_out_and_nothing_is_fetched(repository, clone, tmp_path):
    folder = clone()
    before = run("-C", folder, "count-objects", "-v")
    whole = {commit.id: commit for commit in read_history(repository[0])}
    ids = repository[1]
    history = read_history(folder, cache_dir=tmp_path / "cache")
    for _ in range(2):  # the second time with what the cache holds
        assert list(history) == [whole[ids[number]] for number in (1, 3, 5)]
        assert history.missing == {ids[0], ids[2], ids[4]}
        assert history.warnings == (WARNING.format(3),)
    assert run("-C", folder, "count-objects", "-v") == before


def test_commits_without_their_trees_are_left_out(repository, clone):
    folder = clone("tree:0")
    ids = repository[1]
    for number in (3, 4):  # their own trees, not those of the folders in them
        run("-C", folder, "cat-file", "-p", f"{ids[number]}^{{tree}}")
    found = [commit.id for commit in read_history(folder)]
    assert found == [ids[3], ids[5]]  # commit 4 changes nothing, so that its parent has the same tree
    dated, _ = list_commits(Git(folder), "HEAD")
    assert incomplete_commits(Git(folder), dated) == {ids[place] for place in (0, 1, 2, 4)}


def test_nothing_can_be_read(clone):
    with pytest.raises(ValueError, match="no commit can be read: their objects are missing") as error:
        read_git(str(clone("tree:0", "--bare")))
    assert "\n" not in str(error.value)


def test_a_fix_whose_older_versions_are_missing_has_no_inducing_commit(repository, clone):
    folder = clone()
    # Fetches what the fix changed, not what was before.
    run("-C", folder, "cat-file", "-p", f"{repository[1][2]}:a.txt")
    table = pd.DataFrame(
        {"id": ["7"], "title": ["t"], "description": ["d"], "created_at": pd.to_datetime(["2001-09-13"], utc=True)}
    )
    corpus = read_git(str(folder), reports=Corpus.of_table("bugs", table, np.arange(1)))
    assert corpus.commits.ids[corpus.fixing.relevant(0)].tolist() == [repository[1][4]]
    assert "fixes without inducing commits, older versions of its files missing: 1" in corpus.warnings
    assert WARNING.format(2) in corpus.warnings
