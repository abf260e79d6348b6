"""A repository with the odd cases of real histories, made by ``git fast-import``."""

import pytest

START = 1_000_000_000  # the date of the shared streams
SUBMODULE = "1234567890123456789012345678901234567890"
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


@pytest.fixture(scope="session")
def repository(tmp_path_factory, fast_import):
    """The folder of a repository with odd cases, and the ids of its commits: ids[0] is that of the first."""
    made = fast_import()
    add_commits(made)
    folder = tmp_path_factory.mktemp("odd") / "odd.git"
    return folder, made.write(folder)
