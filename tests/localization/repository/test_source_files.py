"""Which files of a tree are sources, by attributes, names and kinds; by hand."""

import pytest
from git_repository import FastImport
from git_repository import git as run

from gedbd.localization.repository.git_command import (
    Git,
    find_entries,
    list_tree,
    object_sizes,
    present_objects,
    read_blobs,
)
from gedbd.localization.repository.source_files import MAX_BYTES, source_paths

SUBMODULE = "1234567890123456789012345678901234567890"
RULES = b"""docs/** linguist-documentation
made/** linguist-generated
made/by_hand.c linguist-generated=false
*.dat diff
*.sample -diff
*.blob binary
mine/vendor/** linguist-vendored=false
copied/** linguist-vendored=true
"""
SOURCES = {
    "docs/page.md": b"page\n",
    "made/by_hand.c": b"int a;\n",
    "table.dat": b"text\n",
    "mine/vendor/a.c": b"int b;\n",
    "inner/x.txt": b"x\n",
    "src/Parser.java": b"class Parser { }\n",
    "src/locksmith.py": b"\n",
    "largest.c": b"x" * MAX_BYTES,
}
OTHERS = {
    "made/out.c": b"int c;\n",
    "src/a_pb2.py": b"\n",
    "web/Page.min.js": b"\n",
    "Cargo.lock": b"\n",
    "x.sample": b"x\n",
    "x.blob": b"x\n",
    "inner/Logo.PNG": b"x\n",
    "copied/d.c": b"int d;\n",
    "inner/told.txt": b"x\n",
    "a/node_modules/b/index.js": b"\n",
    "third_party/e.c": b"int e;\n",
    "large.c": b"x" * (MAX_BYTES + 1),
}
KINDS = {"link": ("120000", b"table.dat"), "module": ("160000", SUBMODULE)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = FastImport()
    attributes = {".gitattributes": RULES, "inner/.gitattributes": b"told.txt linguist-vendored\n"}
    files = {**attributes, **SOURCES, **OTHERS, **KINDS}
    made.commit(files=files.items(), parents=[])
    made.commit(files=[(".gitattributes", b"* linguist-vendored\n")])
    place = tmp_path_factory.mktemp("attributes") / "bare.git"
    made.write(place)
    return place


def test_sources_and_the_reasons_of_others(folder):
    found = source_paths(Git(folder), "HEAD~1")
    assert set(found.paths) == {".gitattributes", "inner/.gitattributes", *SOURCES}
    assert found.skipped == {
        "generated": 4,
        "vendored": 4,
        "binary": 3,
        "over 1,000,000 bytes": 1,
        "symbolic links": 1,
        "submodules": 1,
    }
    assert list(found.paths) == sorted(found.paths)
    assert len(found.paths) + sum(found.skipped.values()) == len(list_tree(Git(folder), "HEAD~1"))


def test_the_attributes_are_those_of_the_commit(folder, tmp_path):
    assert source_paths(Git(folder), "HEAD").paths == ()
    run("clone", "-q", folder, tmp_path / "clone")
    (tmp_path / "clone" / ".gitattributes").write_text("* binary\n")
    git = Git(tmp_path / "clone" / "inner")
    assert source_paths(git, "HEAD~1") == source_paths(Git(folder), "HEAD~1")
    assert run("-C", tmp_path / "clone", "status", "--short", "-uno") == "M .gitattributes"  # its index is untouched


def test_names_that_are_not_ascii(tmp_path):
    made = FastImport()
    rules = "größe.txt linguist-generated\n".encode()
    files = [(".gitattributes", rules), ("größe.txt", b""), (b"latin-\xe9", b"x"), ("two\nlines", b""), ("a b", b"")]
    made.commit(files=files, parents=[])
    made.write(tmp_path / "x.git")
    found = source_paths(Git(tmp_path / "x.git"), "main")
    assert found.paths == (".gitattributes", "a b", "latin-é", "two\nlines")
    assert found.skipped == {"generated": 1}


def test_files_missing_from_a_partial_clone_are_counted(folder, tmp_path):
    run("-C", folder, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial.git"
    run("clone", "-q", "--bare", "--filter=blob:none", f"file://{folder}", clone)
    blob = run("-C", folder, "rev-parse", "HEAD:table.dat")
    run("-C", clone, "cat-file", "-p", blob)  # fetches it
    git = Git(clone)
    found = source_paths(git, "HEAD")
    # The attributes are missing too, so that only names count.
    assert found.paths == ()
    assert found.skipped["missing from the repository"] == len(SOURCES) + len(OTHERS) + 1
    assert object_sizes(git, [blob, run("-C", folder, "rev-parse", "HEAD:x.blob")]) == {blob: 5}
    assert present_objects(git, [blob, SUBMODULE]) == {blob}


def test_entries_and_contents(folder):
    git = Git(folder)
    found = find_entries(git, "HEAD", ["table.dat", "link", "module", "src", "nowhere", "src/Parser.java"])
    assert [(entry.path, entry.is_file) for entry in found] == [
        ("link", False),
        ("module", False),
        ("src/Parser.java", True),
        ("table.dat", True),
    ]
    assert list(read_blobs(git, [entry.id for entry in found[2:]])) == [b"class Parser { }\n", b"text\n"]
    assert find_entries(git, "HEAD", []) == []
    with pytest.raises(ValueError, match=f"object {SUBMODULE} cannot be read"):
        list(read_blobs(git, [SUBMODULE]))
