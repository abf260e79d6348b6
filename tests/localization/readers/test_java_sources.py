"""Methods of Java sources: which are read, in which order, and what is counted."""

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.localization.readers.java_sources import read_java_sources

METHODS = Path(__file__).parents[4] / "shared" / "data" / "java_methods" / "tomcat.jsonl.xz"
CLASS = "class {name} {{\n    /** Says {name}. */\n    int {name}(int a) {{ return a + {number}; }}\n}}\n"


def write(file: Path, name: str, number: int = 0, **encoding: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(CLASS.format(name=name, number=number), **encoding)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two files whose methods are read, in a folder named sources."""
    root = tmp_path / "sources"
    write(root / "b" / "B.java", "b", 1)
    write(root / "A.java", "a", 2)
    return root


def read(path: Path, **options) -> Corpus:
    return read_java_sources(None, str(path), skip_folders=["build", "target"], **options)


def titles(corpus: Corpus) -> list[str]:
    return corpus.reports["title"].tolist()


def test_a_folder_is_read_in_alphabetical_order(folder) -> None:
    corpus = read(folder)
    assert corpus.name == "sources"
    assert corpus.reports["id"].tolist() == ["A.java:3:a", "b/B.java:3:b"]
    assert corpus.reports["path"].tolist() == ["A.java", "b/B.java"]
    assert corpus.reports["description"].tolist() == [
        "int a(int a) { return a + 2; }",
        "int b(int a) { return a + 1; }",
    ]
    assert corpus.reports["comment"].tolist() == ["Says a.", "Says b."]
    assert corpus.group.tolist() == [0, 1]
    assert not corpus.documents.has_dates
    assert corpus.warnings == ()
    assert titles(read(folder / "b" / "B.java")) == ["b"]


def test_what_is_left_out_is_counted(folder, tmp_path) -> None:
    write(folder / ".hidden" / "H.java", "h", 3)
    write(folder / "._A.java", "apple", 4)
    write(tmp_path / "elsewhere" / "E.java", "e", 5)
    os.symlink(tmp_path / "elsewhere", folder / "linked")
    os.symlink(folder / "A.java", folder / "C.java")
    os.symlink(folder, folder / "b" / "circle")
    os.mkfifo(folder / "Pipe.java")
    (folder / "pom.xml").touch()
    write(folder / "target" / "T.java", "t", 6)
    write(folder / "b" / "build" / "Package.java", "p", 7)
    write(folder / "c" / "Old.java", "ä", 8, encoding="cp1252")
    (folder / "Large.java").write_text("class L { int l() { return 1; } }" + " " * 3000)
    (folder / "notes.txt").write_text("int f() { }")
    corpus = read(folder, max_file_kb=2)
    assert titles(corpus) == ["a", "b", "p", "ä"]
    assert corpus.warnings == (
        "Java files of more than 2 kB (dataset.max_file_kb): 1, left out (first: Large.java)",
        "folders of build output (dataset.skip_folders): 1, left out (first: target)",
        "hidden folders and Java files: 2, left out (first: ._A.java)",
        "pipes and other special files: 1, left out (first: Pipe.java)",
        "symbolic links to folders and Java files: 3, left out (first: C.java)",
        "Java files that are not UTF-8: 1, read as cp1252 (first: c/Old.java)",
    )


def test_repeated_and_long_methods_are_counted(folder) -> None:
    same = "int a(int a)\n{\n // as before\n return a+2;\n}"
    lines = [
        {"path": "A.java", "name": "a", "line": 3, "comment": "Says a.", "code": "int a(int a) { return a + 2; }"},
        {"path": "B.java", "name": "a", "line": 4, "comment": "Another.", "code": same},
        {"path": "C.java", "name": "long", "line": 5, "code": "int long() {\n\n\n\n\n\n}"},
        {"path": "C.java", "name": "f", "line": 9, "code": "int f() { }"},
        {"path": "C.java", "name": "f", "line": 9, "code": "int f(int a) { }"},
    ]
    text = "".join(json.dumps(line) + "\n\n" for line in lines)
    for file, opener in (("m.jsonl", open), ("m.jsonl.xz", lzma.open), ("m.jsonl.gz", gzip.open)):
        with opener(folder / file, "wt") as stream:
            stream.write(text)
        corpus = read(folder / file, max_method_lines=6)
        assert corpus.name == "m"
        assert corpus.reports["id"].tolist() == ["A.java:3:a", "C.java:9:f", "C.java:9:f#2"]
        assert corpus.reports["comment"].tolist() == ["Says a.", "", ""]
        assert corpus.warnings == (
            "methods of more than 6 lines (dataset.max_method_lines): 1, left out (first: C.java:5:long)",
            "methods that differ from an earlier one only in white space and comments: 1, left out (first: B.java:4:a)",
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"m\.jsonl, row 2: not readable as JSON"),
        pytest.param("[" * 100_000, r"row 2: not readable as JSON", id="nested"),
        ('{"path": "a", "name": "b", "code": " "}', "row 2: 'code' must be a non-empty string"),
        ('{"path": "a", "name": "b", "code": "c", "line": "x"}', "row 2: 'line' must be a whole number, not 'x'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message) -> None:
    (tmp_path / "m.jsonl").write_text('{"path": "a", "name": "b", "code": "c"}\n' + line)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "m.jsonl")


def test_paths_without_methods_are_refused(tmp_path) -> None:
    (tmp_path / "A.java").write_text(" " * 2000)
    with pytest.raises(ValueError, match=r"no Java method .*\(Java files of more than 1 kB .*: 1, left out"):
        read(tmp_path, max_file_kb=1)
    with pytest.raises(ValueError, match=r"no such file or folder; set dataset\.path="):
        read(tmp_path / "absent")


@pytest.mark.slow
def test_the_methods_of_tomcat() -> None:
    if not METHODS.is_file():
        pytest.skip(f"{METHODS} is absent")
    corpus = read(METHODS)
    assert len(corpus) == 13_721
    assert "46, left out" in corpus.warnings[0]
    assert corpus.reports.iloc[0]["id"] == "java/jakarta/el/ArrayELResolver.java:47:getType"
    assert corpus.reports.iloc[-1]["id"] == "java/org/apache/tomcat/websocket/server/WsWriteTimeout.java:112:unregister"
