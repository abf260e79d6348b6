"""Finds the files of a commit's tree that people write: not vendored, generated, binary or very large.

The attributes in .gitattributes are those of GitHub's linguist, ``linguist-vendored`` and ``linguist-generated``, and
Git's ``binary`` and ``-diff``. Without attributes, the name of a file decides. Documentation is kept.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from posixpath import splitext
from typing import NamedTuple

from gedbd.localization.repository.git_command import LINK_MODE, SUBMODULE_MODE, Git, TreeEntry, list_tree, object_sizes

MAX_BYTES = 1_000_000
ATTRIBUTES = ".gitattributes"
VENDORED = "vendored"
GENERATED = "generated"
BINARY = "binary"
LINKS = "symbolic links"
SUBMODULES = "submodules"
LARGE = f"over {MAX_BYTES:,} bytes"
MISSING = "missing from the repository"
ATTRIBUTE_NAMES = ("linguist-vendored", "linguist-generated", "binary", "diff")
YES = {"set", "true"}
NO = {"unset", "false"}
_VENDORED_FOLDERS = """
node_modules bower_components jspm_packages vendor vendors vendored third_party third-party thirdparty 3rdparty
godeps carthage pods site-packages .yarn
"""
VENDORED_FOLDERS = frozenset(_VENDORED_FOLDERS.split())
_VENDORED_NAMES = "gradlew gradlew.bat mvnw mvnw.cmd jquery.js bootstrap.js bootstrap.css"
VENDORED_NAMES = frozenset(_VENDORED_NAMES.split())
# Files that tools write: lock files, minified files, and code generated from descriptions of interfaces or forms.
_GENERATED_NAMES = """
package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json go.sum gradle.lockfile project.assets.json
"""
GENERATED_NAMES = frozenset(_GENERATED_NAMES.split())
GENERATED_NAME = re.compile(
    r"\.lock$|[.-]min\.(?:js|mjs|cjs|css)$|\.(?:js|mjs|css)\.map$"
    r"|_pb2(?:_grpc)?\.pyi?$|\.pb(?:\.gw)?\.(?:go|cc|h|c|rb|dart|swift)$|_pb\.(?:js|rb|d\.ts)$"
    r"|\.designer\.(?:cs|vb)$|\.g(?:\.i)?\.cs$|\.(?:g|freezed)\.dart$|[._]generated\.\w+$|^zz_generated\."
)
_BINARY_SUFFIXES = """
.png .jpg .jpeg .gif .bmp .ico .icns .webp .tif .tiff .psd .xcf .ai .eps .pdf .ps .ttf .otf .woff .woff2 .eot
.mp3 .mp4 .ogg .wav .flac .avi .mov .webm .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .jar .war .ear .aar .class
.dex .apk .ipa .exe .dll .so .dylib .a .lib .o .obj .pdb .pyc .pyo .whl .egg .nupkg .bin .dat .db .sqlite
.sqlite3 .mdb .doc .docx .xls .xlsx .ppt .pptx .odt .ods .odp .pack .idx .keystore .jks .p12 .pfx .der .wasm
.npy .npz .pkl .h5 .onnx .pt .pth .parquet .arrow .swf .blend .fbx .dds .tga .mo .snk .lockb
"""
BINARY_SUFFIXES = frozenset(_BINARY_SUFFIXES.split())


class SourcePaths(NamedTuple):
    """The files of a tree that a report may be about, in the order of the tree; and the number of others by reason."""

    paths: tuple[str, ...]
    skipped: dict[str, int]


def source_paths(git: Git, commit: str) -> SourcePaths:
    """The text files of a commit's tree that are neither vendored nor generated nor over ``MAX_BYTES``.

    The attributes of a file or the suffix of its name say whether it is text; no content is read. The repository may be
    bare or a partial clone. Raises ValueError if there is no such commit, or a tree is missing.
    """
    entries = list_tree(git, commit)
    files = [entry for entry in entries if entry.is_file]
    sizes = object_sizes(git, [entry.id for entry in files])
    attributes = _attributes(git, files, sizes)
    paths = []
    skipped: Counter[str] = Counter()
    for entry in entries:
        reason = _reason(entry, sizes.get(entry.id), attributes.get(entry.name, {}))
        if reason:
            skipped[reason] += 1
        else:
            paths.append(entry.path)
    return SourcePaths(tuple(paths), dict(skipped))


def _reason(entry: TreeEntry, size: int | None, attributes: Mapping[str, str]) -> str:
    """Why an entry is left out; empty for a source file."""
    if not entry.is_file:
        return {LINK_MODE: LINKS, SUBMODULE_MODE: SUBMODULES}.get(entry.mode, "of an unknown kind")
    if size is None:
        return MISSING
    if attributes.get("linguist-vendored") in YES:
        return VENDORED
    if attributes.get("linguist-generated") in YES:
        return GENERATED
    if attributes.get("binary") in YES or attributes.get("diff") in NO:
        return BINARY
    return _by_name(entry.path, attributes) or (LARGE if size > MAX_BYTES else "")


def _by_name(path: str, attributes: Mapping[str, str]) -> str:
    """The reason in the name of a file, unless its attributes say otherwise; empty if there is none."""
    *folders, name = path.lower().split("/")
    is_vendored = name in VENDORED_NAMES or not VENDORED_FOLDERS.isdisjoint(folders)
    if is_vendored and attributes.get("linguist-vendored") not in NO:
        return VENDORED
    is_generated = name in GENERATED_NAMES or GENERATED_NAME.search(name) is not None
    if is_generated and attributes.get("linguist-generated") not in NO:
        return GENERATED
    is_binary = splitext(name)[1] in BINARY_SUFFIXES  # pathlib would take half of the total time for a large tree
    return BINARY if is_binary and attributes.get("diff") not in YES else ""


def _attributes(git: Git, files: Sequence[TreeEntry], sizes: Mapping[str, int]) -> dict[bytes, dict[str, str]]:
    """The attributes that the .gitattributes of a tree give its files, by name; files without one are left out.

    Git before 2.40 reads attributes of a tree only through an index, which also works in bare repositories: so a
    temporary index of the .gitattributes files is created.
    """
    attribute_files = [entry for entry in files if entry.id in sizes and entry.path.rpartition("/")[2] == ATTRIBUTES]
    if not attribute_files:
        return {}
    attributes: dict[bytes, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        rows = [f"{entry.mode} {entry.id}\t".encode() + entry.name for entry in attribute_files]
        with git.stream("update-index", "-z", "--index-info", lines=rows, end=b"\0", index=index) as output:
            output.read()
        names = [entry.name for entry in files]
        command = ("check-attr", "--cached", "-z", "--stdin", *ATTRIBUTE_NAMES)
        with git.stream(*command, lines=names, end=b"\0", index=index) as output:
            fields = output.read().split(b"\0")[:-1]
    for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value != b"unspecified":
            attributes.setdefault(name, {})[attribute.decode()] = value.decode("utf-8", "replace")
    return attributes
