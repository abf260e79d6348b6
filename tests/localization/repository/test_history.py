"""Histories with the odd cases of real ones, the cache of commits, and commits with a date that is too late."""

import sqlite3
import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from git_repository import FastImport, read_history

from gedbd.localization.repository.commit_history import MAX_LATE, CommitCache, find_late, longest_rising
from gedbd.localization.repository.commits import NO_LIMITS, Limits

BUNDLE = Path(__file__).parents[4] / "shared" / "data" / "repositories" / "commons-csv.bundle"
START = 1_000_000_000  # 2001-09-09T01:46:40Z; commit n is dated n days later
SUBMODULE = "1234567890123456789012345678901234567890"
LIMITS = Limits(max_files=30, max_file_chars=2_000, max_line_chars=100)
TEN = b"".join(b"line %d\n" % number for number in range(10))


def add_commits(made):
    """Commits 1 to 21; the comments are what each is about."""
    odd = [(name, b"x\n") for name in ("two words", 'quote"', "line\nend", "tab\tname", "ümlaut", b"latin-\xe9")]
    plain = [("crlf", b"x\r\ny\r\n"), ("no end", b"one\ntwo"), ("empty", b""), ("run.sh", b"#!\n"), ("spot", b"s\n")]
    made.commit(b"root\n\nwith files", [("a", TEN), ("link", ("120000", b"a")), *plain, *odd], parents=[])  # 1
    made.commit(b"rename", [("a", None), ("b", TEN.replace(b"line 4", b"changed"))])  # 2
    made.commit(b"binary and submodule", [("bin", b"\0\1\2"), ("module", ("160000", SUBMODULE))])  # 3
    made.commit(b"")  # 4: neither a message nor a change
    made.commit(b"branch", [("b", TEN.replace(b"line 4", b"theirs"))], parents=[2], date=START)  # 5: before its parent
    made.commit(b"ours", [("b", TEN.replace(b"line 4", b"ours"))], parents=[4])  # 6
    made.commit(b"merge", [("b", TEN.replace(b"line 4", b"both"))], parents=[6, 5])  # 7: of a conflict
    made.commit(
        b"crossed", [("b", TEN.replace(b"line 4", b"both"))], parents=[5, 6]
    )  # 8: the merge the other way round
    made.commit(b"criss-cross", [("b", TEN)], parents=[7, 8])  # 9
    made.commit(b"left", [("left", b"l\n")], parents=[9])  # 10
    made.commit(b"right", [("right", b"r\n")], parents=[9])  # 11
    made.commit(b"octopus", [("left", b"l\n"), ("right", b"r\n")], parents=[9, 10, 11])  # 12
    made.commit(b"modes", [("run.sh", ("100755", b"#!\n")), ("link", b"a\n")])  # 13
    made.commit(b"folder", [("spot", None), ("spot/inner", b"s\n"), ("module", None)])  # 14
    made.commit("Größe".encode("latin-1"), [("latin", b"caf\xe9\n")], encoding=b"iso-8859-1")  # 15
    made.commit("Привет".encode("koi8-r"), [("crlf", b"x\ny\r\n")], encoding=b"KOI8-R")  # 16
    made.commit(b"\xe9t\xe9", [("no end", b"one\ntwo\n")], encoding=b"zlib")  # 17: no encoding of texts
    long = b"x" * 2_000_000 + b"\n"
    made.commit(b"huge", [("long", long), ("many", b"some words\n" * 10_000), ("z", b"z\n")])  # 18
    made.commit(b"files", [(f"f/{number:02d}", b"%d\n" % number) for number in range(40)])  # 19
    made.commit(b"no date", [("left", None)], date=0)  # 20
    made.commit(b"far future", [("right", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n")], date=8_000_000_000)  # 21
    made.commit(b"headers", [("right", b"diff --git a/x b/x\n")])  # 22


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The folder of a repository with odd cases, and the ids of its commits: ids[0] is that of the first."""
    made = FastImport()
    add_commits(made)
    folder = tmp_path_factory.mktemp("odd") / "odd.git"
    return folder, made.write(folder)


@pytest.fixture(scope="module")
def history(repository):
    return read_history(repository[0], limits=LIMITS)


@pytest.fixture(scope="module")
def commits(repository, history):
    """Commit by its number."""
    by_id = {commit.id: commit for commit in history}
    return {number: by_id[commit] for number, commit in enumerate(repository[1], start=1)}


def changes(commit):
    return {file.path: file.status for file in commit.files}


def lines(commit, path):
    return [line for file in commit.files if file.path == path for hunk in file.hunks for line in hunk.lines]


def changed_lines(commit, path):
    return [line for line in lines(commit, path) if line[0] != " "]


def test_parents_come_before_children_and_dates_never_fall(repository, history):
    read = list(history)
    position = {commit.id: number for number, commit in enumerate(read)}
    assert len(read) == len(history) == len(repository[1]) == 22
    assert all(position[parent] < position[commit.id] for commit in read for parent in commit.parents)
    dates = [commit.created_at for commit in read]
    assert dates == sorted(dates)


def test_dates_are_utc_and_wrong_ones_are_those_of_a_parent(commits, history):
    def day(number):
        return datetime.fromtimestamp(START, UTC) + timedelta(days=number)

    assert commits[1].created_at == day(1) == datetime(2001, 9, 10, 1, 46, 40, tzinfo=UTC)
    assert commits[5].created_at == day(2)
    assert commits[20].created_at == day(19)
    assert commits[21].created_at == day(19)
    assert commits[22].created_at == day(22)
    assert "1 commits are dated before a parent" in history.warnings[0]
    assert "2 commits are dated outside 1970 to 2200" in history.warnings[1]


def test_a_root_commit_adds_its_files_under_any_name(commits):
    names = {"a", "crlf", "no end", "empty", "run.sh", "spot", "link", "two words", 'quote"', "line\nend"}
    assert changes(commits[1]) == dict.fromkeys(names | {"tab\tname", "ümlaut", "latin-é"}, "A")
    assert all(file.old_path == "" for file in commits[1].files)
    assert commits[1].message == "root\n\nwith files"
    assert lines(commits[1], "crlf") == ["+x\r", "+y\r"]
    assert lines(commits[1], "no end") == ["+one", "+two"]
    assert lines(commits[1], "empty") == []
    assert lines(commits[1], "link") == ["+a"]


def test_a_rename_with_a_change(commits):
    (file,) = commits[2].files
    assert (file.status, file.old_path, file.path) == ("R", "a", "b")
    (hunk,) = file.hunks
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (2, 7, 2, 7)
    context = [" line 1", " line 2", " line 3"], [" line 5", " line 6", " line 7"]
    assert list(hunk.lines) == [*context[0], "-line 4", "+changed", *context[1]]


def test_binaries_submodules_modes_types_and_folders(commits):
    binary, module = commits[3].files
    assert binary.is_binary
    assert not binary.hunks
    assert module.is_submodule
    assert lines(commits[3], "module") == [f"+Subproject commit {SUBMODULE}"]
    assert changes(commits[13]) == {"link": "T", "run.sh": "M"}
    assert lines(commits[13], "link") == ["-a", "+a"]
    assert changes(commits[14]) == {"module": "D", "spot/inner": "R"}
    assert commits[14].files[0].is_submodule


def test_a_commit_may_be_empty_and_content_may_look_like_a_diff(commits):
    assert (commits[4].message, commits[4].files) == ("", ())
    assert changes(commits[22]) == {"right": "M"}
    assert lines(commits[22], "right") == ["---- a/x", "-+++ b/x", "-@@ -1 +1 @@", "+diff --git a/x b/x"]


def test_merges_are_compared_with_their_first_parent(commits):
    assert commits[7].parents == (commits[6].id, commits[5].id)
    assert changed_lines(commits[7], "b") == ["-ours", "+both"]
    assert changed_lines(commits[8], "b") == ["-theirs", "+both"]
    assert changed_lines(commits[9], "b") == ["-both", "+line 4"]
    assert len(commits[12].parents) == 3
    assert changes(commits[12]) == {"left": "A", "right": "A"}


def test_messages_and_content_in_other_encodings(commits, history):
    assert [commits[number].message for number in (15, 16, 17)] == ["Größe", "Привет", "été"]
    assert lines(commits[15], "latin") == ["+café"]
    assert any("lines are not UTF-8" in line for line in history.warnings)
    assert any("1 messages are not in the encoding" in line for line in history.warnings)


def test_what_is_too_large_is_cut_flagged_and_counted(commits, history):
    long, many, small = commits[18].files
    assert long.hunks[0].lines == ("+" + "x" * 99,)
    assert many.hunks[0].lines == ("+some words",) * (2_000 // 11)
    assert [long.is_cut, many.is_cut, small.is_cut, commits[18].is_cut] == [True, True, False, True]
    assert lines(commits[18], "z") == ["+z"]
    assert len(commits[19].files) == 30
    assert commits[19].is_cut
    assert any("10 files beyond the first 30" in line for line in history.warnings)
    assert any("2 changed files are cut" in line for line in history.warnings)


def test_added_and_removed_lines_equal_those_of_git(repository):
    folder, _ = repository
    for commit in read_history(folder):
        parent = commit.parents[0] if commit.parents else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the empty tree
        run = ["git", "-C", folder, "diff-tree", "-r", "-M", "--numstat", "-z", parent, commit.id]
        told = subprocess.run(run, capture_output=True, check=True).stdout.decode("cp1252")
        counts = [field.split("\t")[:2] for field in told.split("\0") if field.count("\t") >= 2]
        assert len(counts) == len(commit.files)
        if not commit.is_cut:
            kept = [line[0] for file in commit.files for hunk in file.hunks for line in hunk.lines]
            expected = [sum(int(pair[side]) for pair in counts if pair[0] != "-") for side in (0, 1)]
            assert [kept.count("+"), kept.count("-")] == expected


@pytest.mark.slow
def test_the_counts_of_a_real_history(tmp_path):
    if not BUNDLE.exists():
        pytest.skip(f"{BUNDLE} is absent")
    subprocess.run(["git", "clone", "-q", "--bare", BUNDLE, tmp_path / "csv"], check=True)
    run = ["git", "-C", tmp_path / "csv", "log", "--format=", "--diff-merges=first-parent", "--numstat", "-M"]
    told = subprocess.run(run, capture_output=True, check=True, text=True).stdout.splitlines()
    history = read_history(tmp_path / "csv", limits=NO_LIMITS)
    commits = list(history)
    assert len(commits) == 3_272
    assert sum(len(commit.parents) > 1 for commit in commits) == 339
    assert sum(len(commit.files) for commit in commits) == len([line for line in told if line])
    kept = Counter(line[0] for commit in commits for file in commit.files for hunk in file.hunks for line in hunk.lines)
    counts = [line.split("\t")[:2] for line in told if line and not line.startswith("-")]
    assert [kept["+"], kept["-"]] == [sum(int(pair[side]) for pair in counts) for side in (0, 1)]
    assert commits[0].created_at == datetime(2005, 12, 17, 5, 41, 27, tzinfo=UTC)
    assert commits[-1].created_at == datetime(2026, 8, 22, 12, 30, 31, tzinfo=UTC)


@pytest.fixture(scope="module")
def plain(repository):
    return list(read_history(repository[0], limits=LIMITS))


def test_a_second_reading_comes_from_the_cache_and_is_equal(repository, plain, tmp_path):
    folder, ids = repository
    first = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    assert list(first) == plain
    second = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    second.git.stream = None  # a process for an object would fail
    assert list(second) == plain
    assert second.warnings == first.warnings
    # With other limits, and for another end of the history, nothing of it is taken wrongly.
    assert list(read_history(folder, cache_dir=tmp_path)) == list(read_history(folder))
    dates = {commit.id: commit.created_at for commit in read_history(folder, ids[4], tmp_path, LIMITS)}
    assert list(dates) == [ids[0], ids[1], ids[4]]


def test_what_was_read_before_an_interruption_is_in_the_cache(repository, plain, tmp_path, monkeypatch):
    folder, ids = repository
    monkeypatch.setattr("gedbd.localization.repository.row_cache.MAX_UNSTORED", 3)
    with pytest.raises(KeyboardInterrupt):
        interrupt(read_history(folder, cache_dir=tmp_path, limits=LIMITS), 8)
    with CommitCache(tmp_path, LIMITS) as cache:
        assert len(cache.known(ids)) == 8
    assert list(read_history(folder, cache_dir=tmp_path, limits=LIMITS)) == plain


def interrupt(history, after):
    for number, _ in enumerate(history, start=1):
        if number == after:
            raise KeyboardInterrupt


def test_damaged_rows_and_files_are_read_again(repository, plain, tmp_path):
    folder, _ = repository
    list(read_history(folder, cache_dir=tmp_path, limits=LIMITS))
    with sqlite3.connect(tmp_path / "commits.sqlite") as rows:
        rows.execute("UPDATE commits SET content = substr(content, 1, 40) WHERE rowid IN (2, 3)")
    history = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    assert list(history) == plain
    assert history.warnings[-1].endswith("2 damaged commits are read again")
    assert not any("damaged" in line for line in read_again(folder, tmp_path, plain))
    (tmp_path / "commits.sqlite").write_bytes(b"no database, " * 100)
    assert any("was damaged" in line for line in read_again(folder, tmp_path, plain))


def read_again(folder, cache_dir, expected):
    history = read_history(folder, cache_dir=cache_dir, limits=LIMITS)
    assert list(history) == expected
    return history.warnings


DAY = 86_400


def late_commits(days, parents):
    """Late commits of a history; days and parents by commit, the last one last."""
    return find_late({commit: day and day * DAY for commit, day in days.items()}, parents, list(days)[-1])


def late_in_line(*days):
    """Positions of the late_commits commits of a history without branches."""
    names = [f"c{number}" for number in range(len(days))]
    parents = {name: names[max(0, number - 1) : number] for number, name in enumerate(names)}
    return [names.index(name) for name in sorted(late_commits(dict(zip(names, days, strict=True)), parents))]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((1, 2, 3), []),
        ((1, 900, 2, 3), [1]),
        ((1, 900, 901, 2, 3, 4), [1, 2]),
        ((500, 501, 502, 2), []),  # the last one is early
        ((1, 3, 2, 4), []),  # a day
        ((1, None, 900, 2, 3), [2]),
        ((None,), []),
        ((7,), []),
    ],
)
def test_late_commits_of_a_line(days, expected):
    assert late_in_line(*days) == expected


def test_late_commits_of_a_branch_are_later_than_the_merge():
    parents = {"a": [], "b": ["a"], "side": ["a"], "merge": ["b", "side"], "end": ["merge"]}
    assert late_commits({"a": 1, "b": 2, "side": 900, "merge": 3, "end": 4}, parents) == {"side"}
    assert late_commits({"a": 1, "b": 2, "side": 4, "merge": 3, "end": 4}, parents) == set()


def test_the_longest_rising_part_is_as_long_as_by_trying_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        numbers = rng.integers(0, 6, 8).tolist()
        parts = (part for size in range(9) for part in combinations(numbers, size))
        rising = max(len(part) for part in parts if list(part) == sorted(part))
        chosen = longest_rising(numbers)
        assert len(chosen) == rising
        assert chosen == sorted(set(chosen))
        assert [numbers[position] for position in chosen] == sorted(numbers[position] for position in chosen)


def test_descendants_of_a_late_commit_keep_their_dates(tmp_path):
    made = FastImport()
    for number, date in enumerate([DAY, 4_000_000_000, 2 * DAY, 3 * DAY]):
        made.commit(b"change", [("a", b"%d\n" % number)], date=date, parents=[number] * (number > 0))
    made.write(tmp_path / "x.git")
    history = read_history(tmp_path / "x.git")
    assert [int(commit.created_at.timestamp()) // DAY for commit in history] == [1, 1, 2, 3]
    assert history.warnings == ("1 commits are dated more than a day after later ones and take a parent's date",)
    assert MAX_LATE == DAY
