"""The commits that last touched places, by hand and against a whole blame."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from gedbd.localization.locating.located_files import PlaceCommit, last_commits
from gedbd.localization.locating.places import MatchedPlace
from gedbd.localization.repository.blame import blame_lines
from gedbd.localization.repository.git_command import Git

FIRST = datetime(2023, 11, 15, 22, 13, 20, tzinfo=UTC)  # of the first commit; each is a day later
LINES = [b"line %d\n" % number for number in range(1, 13)]


def place(start, end, header=0, path="a.txt"):
    return MatchedPlace(path, start, end, header, "", 0.0, (), (), 0, False)


@pytest.fixture
def made(make_repository):
    """Commit n, from 2 on, changes lines n and n + 6 of a file; the last one only indents the file."""
    repository = make_repository()
    lines = list(LINES)
    commits = [("Add the file", {"a.txt": b"".join(lines), "b c.txt": b"x\n"})]
    for number in range(2, 7):
        lines[number - 1] = b"changed %d\n" % number
        lines[number + 5] = b"changed %d\n" % (number + 6)
        commits.append((f"Change {number}\n\nWhy.", {"a.txt": b"".join(lines)}))
    commits.append(("Indent", {"a.txt": b"".join(b"  " + line for line in lines)}))
    repository.made_ids = repository.add(*commits)
    return repository


def test_the_newest_commits_of_each_place(made):
    ids = made.made_ids
    places = [place(1, 12), place(2, 3), place(1, 1, path="b c.txt"), place(7, 8), place(1, 6, header=5)]
    found = last_commits(Git(made.folder), ids[-1], places, seconds=None)
    assert found[0] == tuple(
        PlaceCommit(ids[number - 1], FIRST + timedelta(days=number - 1), f"Change {number}", 2) for number in (6, 5, 4)
    )
    assert [(commit.title, commit.num_lines) for commit in found[1]] == [("Change 3", 1), ("Change 2", 1)]
    assert [(commit.id, commit.num_lines) for commit in found[2]] == [(ids[0], 1)]
    assert [commit.title for commit in found[3]] == ["Change 2", "Add the file"]
    assert [commit.title for commit in found[4]] == ["Change 6", "Change 5"]
    assert last_commits(Git(made.folder), ids[-1], []) == []


@pytest.mark.parametrize("max_commits", [1, 2, 9])
def test_the_lines_are_those_of_a_whole_blame(made, max_commits):
    git = Git(made.folder)
    ids = made.made_ids
    for commit in ids:
        (found,) = last_commits(git, commit, [place(1, 12)], max_commits, seconds=None)
        counts = Counter(line.commit_id for line in blame_lines(git, commit, "a.txt", range(1, 13)))
        expected = sorted(counts.items(), key=lambda item: -ids.index(item[0]))
        assert [(one.id, one.num_lines) for one in found] == expected[:max_commits]


def test_no_time_is_no_commit(made):
    assert last_commits(Git(made.folder), made.made_ids[-1], [place(1, 12)], seconds=0) == [()]


def test_a_damaged_request(made):
    with pytest.raises(ValueError, match="git blame failed"):
        last_commits(Git(made.folder), made.made_ids[-1], [place(50, 60)], seconds=None)


def test_versions_missing_from_a_partial_clone(made, tmp_path):
    made.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    made.git("clone", "-q", "--filter=blob:none", f"file://{made.folder}", str(clone))
    assert last_commits(Git(clone), made.made_ids[-1], [place(1, 12)], seconds=None) == [()]
    made.git("-C", str(clone), "remote", "remove", "origin", inside=False)
    assert last_commits(Git(clone), made.made_ids[-1], [place(1, 12)], seconds=None) == [()]
