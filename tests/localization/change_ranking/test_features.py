"""Features of files and commits, by hand."""

import numpy as np
import pytest
from small_history import DAY, START, added, changed, commit, history_of, hunk, made_commits

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.file_features import (
    FILE_FEATURES,
    KnownFix,
    KnownFixes,
    changed_together,
    named_paths,
)
from gedbd.localization.change_ranking.query_features import (
    WEIGHTS,
    FileLinks,
    file_links,
    match_changes,
    ownership_features,
    query_features,
)
from gedbd.localization.change_ranking.report_words import report_words
from gedbd.text.words import CodeWords

TRACE = """java.lang.IllegalStateException: closed
    at java.util.List.get(List.java:3)
    at net.io.Socket.read(Socket.java:12)
    at net.io.Router$Table.find(Router.java:40)"""


@pytest.fixture(scope="module")
def history() -> ChangeHistory:
    return history_of(made_commits(40))


def test_matches_are_bm25_of_whole_commits_and_of_whole_files(history):
    commits = made_commits(40)
    report = report_words("handleSocket fails", "The Router returns routerValue13 of step 13")
    before = 30
    of_commits, of_paths = match_changes(history, report, before)
    words = CodeWords()
    lines = [
        [line for change in one.files for part in change.hunks for line in [part.section, *part.lines]]
        for one in commits
    ]
    texts = [words.of_text("\n".join(line.lstrip("+-") for line in some)) for some in lines[:before]]
    np.testing.assert_allclose(of_commits["diff"], naive_bm25(texts, report.words, 1.5, 0.75), rtol=1e-4)
    messages = [words.of_text(one.message) for one in commits[:before]]
    np.testing.assert_allclose(of_commits["message"], naive_bm25(messages, report.words, 1.5, 0.75), rtol=1e-4)
    np.testing.assert_array_equal(of_commits["best_file"], of_commits["diff"])  # one file each
    best = history.table.paths[of_paths["changes"].argmax()]
    assert best in ("src/net/Socket.java", "src/net/Router.java")


def naive_bm25(texts, weights, k1, b):
    mean = np.mean([len(text) for text in texts])
    scores = np.zeros(len(texts))
    for word, weight in weights.items():
        df = sum(word in text for text in texts)
        idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for row, text in enumerate(texts):
            tf = text.count(word)
            scores[row] += weight * idf * tf / (tf + k1 * (1 - b + b * len(text) / mean))
    return scores


def test_names_and_stack_traces():
    paths = ["net/io/Socket.java", "net/io/Router.java", "old/io/Router.java", "doc/list.txt"]
    files = [changed(path, hunk(0, added("x")), status="A") for path in paths]
    index = history_of([commit(0, "add", *files)]).table
    place = {path: index.paths.index(path) for path in paths}
    found = named_paths(index, report_words("Router broken", f"see net.io.Socket\n{TRACE}"), 4)
    assert found["qualified"][place["net/io/Socket.java"]] == np.float32(np.log1p(2))  # in the text and in a frame
    # The frame of java.util.List hits no file, so Socket is the first and Router the second one.
    assert found["stack_first"][place["net/io/Socket.java"]] == 1
    assert found["stack_first"][place["net/io/Router.java"]] == 0.5
    assert found["stack_first"][place["old/io/Router.java"]] == 0
    assert found["stack_count"][place["net/io/Router.java"]] == np.float32(np.log1p(1))
    # A word with a capital weighs .4, two files of that name share it, and it is the first one named.
    shared = 0.4 / (1 + np.log(2))
    assert found["name"][place["old/io/Router.java"]] == np.float32(shared * 2)
    assert found["name_title"][place["old/io/Router.java"]] == np.float32(shared)
    assert found["name_title"][place["net/io/Socket.java"]] == 0


def test_ownership_by_hand():
    # File 0 (p .8): 3 lines of commit 0, 1 of commit 2. File 1 (p .2): 2 lines of commit 1.
    links = FileLinks(
        owned_file=np.array([0, 0, 1]),
        owner=np.array([0, 2, 1]),
        lines=np.array([3, 1, 2]),
        share=np.array([0.75, 0.25, 1.0]),
        changed_file=np.array([0, 0, 1]),
        changer=np.array([0, 2, 1]),
        num_later=np.array([1, 0, 0]),
        is_first=np.array([True, False, True]),
    )
    weights = {name: np.array([1.0, 0.5]) for name in WEIGHTS}
    found = ownership_features(links, np.array([0.8, 0.2]), weights, 3)
    np.testing.assert_allclose(found["lines"], [0.6, 0.2, 0.2], rtol=1e-6)
    np.testing.assert_allclose(found["lines_best_file"], [0.6, 0.2, 0.2], rtol=1e-6)
    roots = np.sqrt([0.8, 0.2]) / np.sqrt([0.8, 0.2]).sum()
    np.testing.assert_allclose(found["lines_flat"], roots[[0, 1, 0]] * [0.75, 1, 0.25], rtol=1e-6)
    np.testing.assert_allclose(found["lines_log"], [0.8 * np.log(4), 0.2 * np.log(3), 0.8 * np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(found["lines_by_rank"], [0.75, 0.5, 0.25])
    np.testing.assert_allclose(found["lines_top_1"], [0.75, 0, 0.25])
    np.testing.assert_allclose(found["lines_top_3"], [0.25, 1 / 3, 0.25 / 3], rtol=1e-6)
    np.testing.assert_allclose(found["touches"], [0.8, 0.2, 0.8], rtol=1e-6)
    np.testing.assert_allclose(found["touches_by_rank"], [1, 0.5, 1])
    np.testing.assert_allclose(found["newest"], [0.4, 0.2, 0.8], rtol=1e-6)
    np.testing.assert_allclose(found["oldest"], [0.8, 0.2, 0], rtol=1e-6)
    power = np.array([1, 0.5**4]) / (1 + 0.5**4)
    np.testing.assert_allclose(found["lines_name"], power[[0, 1, 0]] * [0.75, 1, 0.25], rtol=1e-6)


def test_links_of_files(history):
    before = 25
    paths = np.array([0, 4])
    links = file_links(history, paths, before)
    for place, path in enumerate(paths):
        rows = [row for row in np.flatnonzero(history.table.row_path == path) if history.table.row_commit[row] < before]
        changers = history.table.row_commit[rows]
        assert links.changer[links.changed_file == place].tolist() == changers.tolist()
        assert links.num_later[links.changed_file == place].tolist() == list(range(len(rows)))[::-1]
        assert links.is_first[links.changed_file == place].tolist() == [True] + [False] * (len(rows) - 1)
        np.testing.assert_allclose(links.share[links.owned_file == place].sum(), 1)
        assert links.lines[links.owned_file == place].sum() == 10


def test_earlier_fixes_vote_for_their_files():
    history = history_of(made_commits(12))
    ids = history.ids
    fixes = [
        KnownFix("Socket hangs", "", START + DAY * 20, (ids[4],)),
        KnownFix("Printer jams", "", START + DAY * 15, (ids[1], "unknown")),
    ]
    known = KnownFixes(history, fixes)
    report = report_words("Socket", "")
    found = known.votes(report, START + DAY * 30, 10)
    assert found[history.table.paths.index("src/net/Socket.java")] > 0
    assert np.count_nonzero(found) == 1
    assert not known.votes(report, START + DAY * 20, 10).any()  # not known yet at that moment


def test_a_report_without_words_and_a_history_without_commits(history):
    features = query_features(history, ChangeQuery("", "", START + DAY * 20))
    assert not len(features.files.paths)
    empty = query_features(ChangeHistory(), ChangeQuery("Router", ""))
    assert empty.num_commits == 0
    assert empty.files.paths.size == 0
    assert empty.files.features.shape == (0, len(FILE_FEATURES))


def content_score(history, word, before):
    return match_changes(history, report_words(word, ""), before)[1]["content"]


def test_contents_are_what_the_files_hold_at_the_time():
    path = "src/Parser.java"
    history = history_of(
        [
            commit(0, "add", changed(path, hunk(0, added("alpha beta", "gamma")), status="A")),
            commit(1, "change", changed(path, hunk(1, ["-alpha beta", "+delta", " gamma"]))),
            commit(2, "add", changed("src/Other.java", hunk(0, added("beta")), status="A")),
        ]
    )
    assert content_score(history, "alpha", 1)[0] > 0
    assert content_score(history, "alpha", 2)[0] == 0
    assert content_score(history, "gamma", 2)[0] > 0
    assert content_score(history, "beta", 3).argmax() == history.table.paths.index("src/Other.java")
    assert content_score(history, "beta", 3)[history.table.paths.index(path)] == 0
    np.testing.assert_allclose(np.expm1(match_changes(history, report_words("", ""), 3)[1]["size"]), [2, 1])


def test_deleted_and_renamed_files_do_not_exist_and_candidates_are_source_files():
    first = ("a.py", "b.py", "c.py", "notes.txt")
    history = history_of(
        [
            commit(0, "add", *(changed(path, hunk(0, added("needle")), status="A") for path in first)),
            commit(1, "delete", changed("a.py", hunk(1, ["-needle"]), status="D")),
            commit(2, "rename", changed("d.py", hunk(1, ["-needle", "+d"]), status="R", old_path="b.py")),
            commit(3, "again", changed("a.py", hunk(0, added("needle")), status="A")),
        ]
    )
    index = history.table
    found = []
    for before in range(5):
        exists = index.existing(index.num_rows(before))
        found.append({path for path, there in zip(history.table.paths, exists, strict=False) if there})
    expected = [set(), {"a.py", "b.py", "c.py"}, {"b.py", "c.py"}, {"d.py", "c.py"}, {"a.py", "c.py", "d.py"}]
    assert found == [paths | {"notes.txt"} if paths else paths for paths in expected]
    for before, candidates in ((2, expected[2]), (None, expected[4])):
        query = ChangeQuery("needle", "", before and START + DAY * before)
        files = query_features(history, query).files
        assert {history.table.paths[path] for path in files.paths} == candidates


def test_files_changed_together_and_folders_by_hand():
    history = history_of(
        [
            commit(
                0, "add", *(changed(path, hunk(0, added(path)), status="A") for path in ("x/a.py", "x/b.py", "c.py"))
            ),
            commit(1, "both", *(changed(path, hunk(1, ["-q", "+r"])) for path in ("x/a.py", "x/b.py"))),
        ]
    )
    paths = history.table.paths
    lexical = np.array([1.0 if path == "x/a.py" else 0.0 for path in paths])
    found = changed_together(history, lexical, np.zeros(3, dtype=bool), np.arange(3), 2)
    expected = {
        "x/a.py": (1 / 3**0.5 + 1 / 2**0.5) / 2,
        "x/b.py": (1 / 3**0.5 + 1 / 2**0.5) / 2,
        "c.py": 1 / 3**0.5 / 2,
    }
    np.testing.assert_allclose(found, [expected[path] for path in paths])
    folders = history.table.folders
    assert folders[paths.index("x/a.py")] == folders[paths.index("x/b.py")] != folders[paths.index("c.py")]


@pytest.mark.parametrize(
    "text", ["A" * 60_000, "a/" * 30_000, "a." * 30_000, "Aa" * 30_000, "at a.B.c(B.java:1)\n" * 3_000]
)
@pytest.mark.quick_cases(2)
def test_hostile_reports_take_one_pass(text):
    # In quadratic time the test would not end.
    assert report_words(text, text) == report_words(text, text)
