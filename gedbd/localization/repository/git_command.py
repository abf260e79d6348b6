"""Reading of untrusted repositories by the installed ``git``.

Unlike ``git``, pygit2 cannot ignore white space (``-w``) or follow moved lines (``-M``) in blame, nor stream output
line by line to bound memory.

Programs that the configuration or attributes of a repository name are never run: only commands that read objects are
used, without textual conversions, external diffs, hooks, file monitors, signatures and transports. Objects missing from
a partial clone are not fetched. Files of the repository must be regular ones, and a command that is silent is stopped.
"""

import codecs
import io
import math
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from gedbd.io.files import check_regular_files

# Codecs that take quadratic time or read escapes, and are not encodings of messages.
REFUSED = {"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"}
ESCAPE = re.compile(r'\\([0-7]{3}|[abtnvfr"\\])')
LETTERS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
MIN_VERSION = (2, 31)
MAX_START_S = 30.0  # of the first command, which reads a few lines
MAX_SILENCE_S = 600.0  # of the others: a blame of a long history may take minutes until its first line
SETTINGS = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null", "core.quotePath=false"),
    *("core.sshCommand=false", "core.askPass=false", "log.showSignature=false", "gpg.program=false"),
    *("log.mailmap=false", "safe.bareRepository=all", "core.splitIndex=false"),
    *("diff.algorithm=myers", "diff.indentHeuristic=true"),  # blame has no options for all of them
    "core.bigFileThreshold=16m",  # larger files count as binary, which bounds Git's memory
)
# Environment variables can also name programs, and an outer Git process sets some for its own files.
VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
DAMAGED = re.compile("unable to read|could not|corrupt|missing|bad object|inflate|loose object|not allowed")
MISSING = re.compile("could not fetch|unable to read|cannot read|bad file|not a tree object|bad object", re.IGNORECASE)
BROKEN = re.compile("corrupt|inflate|unpack")  # objects that exist
VERSION = re.compile(r"git version (\d+)\.(\d+)")
FILE_MODES = {"100644", "100755", "100664"}  # the last one is in old histories
LINK_MODE = "120000"
SUBMODULE_MODE = "160000"


class MissingObjectError(ValueError):
    """An object of the repository is missing, as in a partial clone."""


class Git:
    """A repository: a work tree, a folder in it, or a bare repository; ``folder`` is that of its objects.

    Raises ValueError if Git is missing or too old, or the path is not a repository, belongs to another user, is a
    shallow clone, or holds something else than regular files. So do all methods if Git waits for ``MAX_SILENCE_S``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        _check_version()
        self.folder = _find_git_folder(self.path)
        check_regular_files(self.folder)
        if self.run("rev-parse", "--is-shallow-repository").strip() == b"true":
            raise ValueError(
                f"{self.path}: this is a shallow clone, whose oldest commits seem to add every file; complete it with "
                "git fetch --unshallow"
            )

    def resolve(self, revision: str) -> str:
        """The id of the commit of a branch, a tag or an expression such as ``HEAD~3``.

        Raises ValueError if there is no such commit, or no commits at all.
        """
        done = self._process("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.split()[-1].decode("ascii")
        has_references = self.run("for-each-ref", "--count=1")
        if not has_references and not self._process("rev-parse", "-q", "--verify", "HEAD").stdout:
            raise ValueError(f"{self.path}: the repository has no commits")
        branches = self.run("for-each-ref", "--count=5", "--format=%(refname:short)", "--sort=-creatordate")
        names = ", ".join(branches.decode("utf-8", "replace").split("\n")[:-1])
        raise ValueError(f"{self.path}: revision {revision} is not a commit; the newest references are {names}")

    def run(self, *arguments: str | bytes) -> bytes:
        """Run a command. Raises ValueError if it fails, ``MissingObjectError`` if an object is missing."""
        done = self._process(*arguments)
        if done.returncode != 0:
            raise self._failure(arguments, done.stderr)
        return done.stdout

    @contextmanager
    def stream(
        self,
        *arguments: str | bytes,
        lines: Iterable[str | bytes] = (),
        end: bytes = b"\n",
        index: str | None = None,
        seconds: float | None = None,
    ) -> Iterator[IO[bytes]]:
        """Stream the output of a command, which ends with the context.

        ``lines`` are those of the standard input, without their ending ``end``; ``index`` is an index file, None for
        that of the repository; after ``seconds`` the command is stopped. Raises ValueError if the command failed, at
        the end of the context, where the output must have been read or closed; ``MissingObjectError`` if an object is
        missing.
        """
        # Files, because a full pipe of input or error messages would block.
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as messages:
            source.writelines((line.encode() if isinstance(line, str) else line) + end for line in lines)
            source.seek(0)
            with subprocess.Popen(
                _command(arguments),
                bufsize=0,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=messages,
                cwd=self.folder,
                env=self._variables() | ({} if index is None else {"GIT_INDEX_FILE": index}),
            ) as process:
                output = _Output(process, self.path, math.inf if seconds is None else seconds)
                buffered = io.BufferedReader(output)
                try:
                    yield buffered
                    failed = not buffered.closed and process.wait() != 0 and not output.is_stopped
                finally:
                    process.kill()
            if failed:
                messages.seek(0)
                raise self._failure(arguments, messages.read())

    def _process(self, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
        return _run(arguments, self.path, self.folder, self._variables(), MAX_SILENCE_S)

    def _variables(self) -> dict[str, str]:
        # With the folder of the objects as the work tree, no .gitattributes of a checkout changes a diff.
        folders = {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(self.folder)}
        return _variables() | folders | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

    def _failure(self, arguments: tuple[str | bytes, ...], messages: bytes) -> ValueError:
        lines = messages.decode("utf-8", "replace").strip().splitlines() or ["it was terminated"]
        message = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
        advice = "; git fsck shows which objects are damaged or missing" if DAMAGED.search(message) else ""
        is_missing = any(map(MISSING.search, lines)) and not any(map(BROKEN.search, lines))
        kind = MissingObjectError if is_missing else ValueError
        return kind(f"{self.path}: git {arguments[0]!s} failed: {message}{advice}")


class _Output(io.RawIOBase):
    """What a command writes, until it ends or, after ``seconds``, is stopped."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path, seconds: float) -> None:
        super().__init__()
        assert process.stdout is not None
        self._process = process
        self._pipe = process.stdout
        self._path = path
        self._end = time.monotonic() + seconds
        self.is_stopped = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        left = self._end - time.monotonic()
        if left > 0 and select.select([self._pipe], [], [], min(left, MAX_SILENCE_S))[0]:
            content = os.read(self._pipe.fileno(), len(buffer))
            buffer[: len(content)] = content
            return len(content)
        self._process.kill()
        if left > MAX_SILENCE_S:
            raise _silent(self._path, MAX_SILENCE_S)
        self.is_stopped = True
        return 0


def _silent(path: Path, seconds: float) -> ValueError:
    cure = "look for FIFOs that it or its settings name, or a disk that does not answer"
    return ValueError(f"{path}: git has written nothing for {seconds:g} seconds: {cure}")


def _run(
    arguments: tuple[str | bytes, ...], path: Path, folder: Path, variables: dict[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            _command(arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=folder,
            env=variables,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise _silent(path, seconds) from error


def _command(arguments: tuple[str | bytes, ...]) -> list[str | bytes]:
    settings = [part for setting in SETTINGS for part in ("-c", setting)]
    return ["git", "--no-pager", "--literal-pathspecs", *settings, *arguments]


def _variables() -> dict[str, str]:
    """The variables of the process without those of Git, plus ``VARIABLES``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | VARIABLES


def _check_version() -> None:
    try:
        output = subprocess.run(
            ["git", "--version"], capture_output=True, text=True, check=True, env=_variables()
        ).stdout
    except FileNotFoundError as error:
        raise ValueError("git is not installed: install git 2.31 or later to read a history") from error
    version = VERSION.match(output)
    if version is not None and (int(version[1]), int(version[2])) < MIN_VERSION:
        raise ValueError(f"{output.strip()} is too old: install git {'.'.join(map(str, MIN_VERSION))} or later")


def _find_git_folder(path: Path) -> Path:
    """The folder of a repository's objects."""
    if not path.exists():
        raise ValueError(f"{path}: no such folder; give the folder of a repository")
    if not path.is_dir():
        raise ValueError(f"{path}: this is a file; give the folder of a repository (clone a bundle first)")
    done = _run(("rev-parse", "--absolute-git-dir"), path, path, _variables(), MAX_START_S)
    if done.returncode == 0:
        return Path(os.fsdecode(done.stdout.removesuffix(b"\n")))
    message = done.stderr.decode("utf-8", "replace")
    if "dubious ownership" in message or "unsafe repository" in message:
        raise ValueError(
            f"{path}: it belongs to another user; if you trust it: git config --global --add safe.directory "
            f"{path.resolve()}"
        )
    raise ValueError(f"{path}: not a git repository or a folder in one ({message.strip().splitlines()[0]})")


def decode(content: bytes) -> tuple[str, bool]:
    """Decode UTF-8, or else Windows-1252 or Latin-1; also return whether it is valid UTF-8."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding), encoding == "utf-8"
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), False


def decode_message(content: bytes, encoding: str) -> tuple[str, bool]:
    """Decode a message by the encoding of its commit (empty for UTF-8), or else by ``decode``; return whether valid."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
        if name.replace("-", "_") not in REFUSED:
            text = content.decode(name)
            # UTF-7 can encode unpaired surrogates, which are replaced.
            return text.encode("utf-8", "replace").decode("utf-8"), True
    except (LookupError, ValueError):
        pass  # unknown or not a text encoding; UnicodeError is a ValueError
    return decode(content)[0], False


def encoded_paths(path: str) -> list[bytes]:
    """The possible encodings of a path, the most likely first."""
    names = [path.encode("utf-8")]
    for encoding in ("cp1252", "latin-1"):
        try:
            names.append(path.encode(encoding))
        except UnicodeEncodeError:
            continue
    return list(dict.fromkeys(names))


def cut_line(line: bytes) -> bytes:
    """Remove the last character, which may be incomplete, of a UTF-8 text that was cut between bytes."""
    for length in range(1, min(4, len(line)) + 1):
        byte = line[-length]
        if byte & 0xC0 != 0x80:  # not a continuation byte
            return line[:-length] if byte >= 0xC0 else line
    return line


def unquote(path: str) -> str:
    r"""Unquote a path of Git's output, such as ``"a\tb"``; a path without quotes does not change."""
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path
    content = bytearray()
    end = 1
    for match in ESCAPE.finditer(path, 1, len(path) - 1):
        content += path[end : match.start()].encode("utf-8", "surrogatepass")
        escaped = match[1]
        content.append(LETTERS[escaped] if escaped in LETTERS else int(escaped, 8) & 0xFF)
        end = match.end()
    content += path[end:-1].encode("utf-8", "surrogatepass")
    return decode(bytes(content))[0]


class TreeEntry(NamedTuple):
    """A file, symbolic link or submodule of a tree; ``name`` is the undecoded path."""

    path: str
    name: bytes
    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        """Whether the entry is a regular file."""
        return self.mode in FILE_MODES


def list_tree(git: Git, commit: str) -> list[TreeEntry]:
    """List all entries of a commit's tree. Raises ``MissingObjectError`` if a tree is missing."""
    return list(_entries(git.run("ls-tree", "-r", "-z", "--full-tree", git.resolve(commit))))


def find_entries(git: Git, commit: str, paths: Sequence[str]) -> list[TreeEntry]:
    """The entries of ``paths``, without folders and missing paths."""
    if not paths:
        return []
    names = [name for path in paths for name in encoded_paths(path)]
    selected = set(paths)
    entries = _entries(git.run("ls-tree", "-z", "--full-tree", git.resolve(commit), "--", *names))
    return [entry for entry in entries if entry.path in selected]


def _entries(listing: bytes) -> Iterator[TreeEntry]:
    for line in listing.split(b"\0")[:-1]:
        entry, _, name = line.partition(b"\t")
        mode, kind, id_ = entry.decode("ascii").split()
        if kind != "tree":
            yield TreeEntry(decode(name)[0], name, mode, id_)


def object_sizes(git: Git, ids: Iterable[str]) -> dict[str, int]:
    """The sizes in bytes of objects by id, without missing objects."""
    distinct = sorted(set(ids))
    try:
        return _sizes(git, distinct)
    except MissingObjectError:
        # Git fails on missing objects of a partial clone that it may not fetch.
        present = present_objects(git, distinct)
        return _sizes(git, [id_ for id_ in distinct if id_ in present])


def _sizes(git: Git, ids: Sequence[str]) -> dict[str, int]:
    sizes = {}
    with git.stream("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", lines=ids) as lines:
        for line in lines:
            id_, size = line.decode("ascii").split()
            if size != "missing":
                sizes[id_] = int(size)
    return sizes


def present_objects(git: Git, ids: Iterable[str]) -> set[str]:
    """The objects among ``ids`` that are in the repository, including damaged ones."""
    candidates = set(ids)
    present = set()
    check = "--batch-check=%(objectname)"
    with git.stream("cat-file", "--batch-all-objects", "--unordered", "--buffer", check) as lines:
        for line in lines:
            id_ = line.decode("ascii").strip()
            if id_ in candidates:
                present.add(id_)
    return present


def read_blobs(git: Git, ids: Sequence[str]) -> Generator[bytes, None, None]:
    """Yield the contents of blobs in order. Raises ``MissingObjectError`` if one is missing."""
    with git.stream("cat-file", "--batch", "--buffer", lines=ids) as objects:
        for id_ in ids:
            head = objects.readline().split()
            if len(head) != 3:
                raise MissingObjectError(f"{git.path}: object {id_} cannot be read; git fsck shows which are missing")
            yield objects.read(int(head[2]))
            objects.read(1)  # a line feed
