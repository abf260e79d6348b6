import pytest

from gedbd.localization.repository.blame import BlamedLine, blame_lines
from gedbd.localization.repository.git_command import Git

# Git takes fewer than 20 letters and digits for a coincidence and not for a move.
END = "  int the_line_that_moves_up;"
BLOCK = [f"    total += compute_the_value(number, {name});" for name in ("alpha", "beta", "gamma")]
OLD = ["class A {", *BLOCK, END, "}"]
MOVED = ["class A {", END, *BLOCK, "}"]
WIDE = [line.replace(END, "\tint  the_line_that_moves_up ;  ") for line in MOVED]
LAST = [*WIDE[:-1], "  int added;", "}"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory, fast_import):
    made = fast_import()
    made.commit(b"root", [("old name", text(OLD)), ("zero", b"0\n"), (b"latin-\xe9", b"1\n")], parents=[])
    made.commit(b"moved and renamed", [("old name", None), ("new\nname", text(MOVED))])
    made.commit(b"white space", [("new\nname", text(WIDE))])
    made.commit(b"one line", [("new\nname", text(LAST))])
    folder = tmp_path_factory.mktemp("blame") / "repository.git"
    ids = made.write(folder)
    return Git(folder), ["", *ids]


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_moves_renames_and_white_space_are_looked_through(repository):
    git, ids = repository
    assert LAST[1] == "\tint  the_line_that_moves_up ;  "
    assert blame_lines(git, ids[4], "new\nname", range(1, 8)) == [
        BlamedLine(ids[1], "old name", 1),
        BlamedLine(ids[1], "old name", 5),
        BlamedLine(ids[1], "old name", 2),
        BlamedLine(ids[1], "old name", 3),
        BlamedLine(ids[1], "old name", 4),
        BlamedLine(ids[4], "new\nname", 6),
        BlamedLine(ids[1], "old name", 6),
    ]


def test_lines_come_in_the_order_asked_for_each_as_often(repository):
    git, ids = repository
    found = blame_lines(git, "HEAD", "new\nname", [7, 6, 1, 6])
    assert [(line.commit_id, line.line) for line in found] == [(ids[1], 6), (ids[4], 6), (ids[1], 1), (ids[4], 6)]
    assert blame_lines(git, "HEAD", "new\nname", []) == []


def test_a_name_that_is_not_utf_8(repository):
    git, ids = repository
    assert blame_lines(git, "HEAD", "latin-é", [1]) == [BlamedLine(ids[1], "latin-é", 1)]


def test_more_ranges_than_a_command_takes(repository, monkeypatch):
    git, _ = repository
    whole = blame_lines(git, "HEAD", "new\nname", [1, 3, 5, 7])
    monkeypatch.setattr("gedbd.localization.repository.blame.MAX_RANGES", 2)
    assert blame_lines(git, "HEAD", "new\nname", [1, 3, 5, 7]) == whole


@pytest.mark.parametrize(
    ("commit", "path", "lines", "told"),
    [
        ("HEAD", "missing", [1], "no such path"),
        ("HEAD", "zero", [2], "has only 1 line"),
        ("HEAD", "zero", [0], "lines are numbered from 1"),
        ("--output=x", "zero", [1], "is not a commit"),
        ("HEAD", "--contents=zero", [1], "no such path"),
        ("HEAD", ":(glob)z*", [1], "no such path"),
    ],
)
def test_bad_input_is_told_in_one_line(repository, commit, path, lines, told):
    with pytest.raises(ValueError, match=told) as error:
        blame_lines(repository[0], commit, path, lines)
    assert "\n" not in str(error.value)
