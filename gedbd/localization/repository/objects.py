"""The objects of a repository: the entries of trees, sizes, contents, and which are missing."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from gedbd.localization.repository.git_command import Git, MissingObjectError, decode, encoded_paths

FILE_MODES = {"100644", "100755", "100664"}  # the last one is in old histories
LINK_MODE = "120000"
SUBMODULE_MODE = "160000"


class TreeEntry(NamedTuple):
    """A file, symbolic link or submodule of a commit's tree.

    Attributes:
        path: Its path.
        name: The path as the repository spells it: names that are not UTF-8 were decoded.
        mode: Its six digits.
        id: The object.
    """

    path: str
    name: bytes
    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        """Whether it is neither a symbolic link nor a submodule."""
        return self.mode in FILE_MODES


def list_tree(git: Git, commit: str) -> list[TreeEntry]:
    """All entries of a commit's tree, by path. Raises ValueError, or ``MissingObjectError`` if a tree is missing."""
    return list(_entries(git.run("ls-tree", "-r", "-z", "--full-tree", git.resolve(commit))))


def find_entries(git: Git, commit: str, paths: Sequence[str]) -> list[TreeEntry]:
    """The entries of some paths, see ``list_tree``; those that the tree lacks, and folders, are left out."""
    if not paths:
        return []
    names = [name for path in paths for name in encoded_paths(path)]
    wanted = set(paths)
    entries = _entries(git.run("ls-tree", "-z", "--full-tree", git.resolve(commit), "--", *names))
    return [entry for entry in entries if entry.path in wanted]


def _entries(listing: bytes) -> Iterator[TreeEntry]:
    for line in listing.split(b"\0")[:-1]:
        place, _, name = line.partition(b"\t")
        mode, kind, id_ = place.decode("ascii").split()
        if kind != "tree":
            yield TreeEntry(decode(name)[0], name, mode, id_)


def object_sizes(git: Git, ids: Iterable[str]) -> dict[str, int]:
    """The sizes in bytes of objects by id; those that are missing, as in a partial clone, are left out."""
    wanted = sorted(set(ids))
    try:
        return _sizes(git, wanted)
    except MissingObjectError:
        # Git would fetch a missing object of a partial clone, and ends where it may not.
        present = present_objects(git, wanted)
        return _sizes(git, [id_ for id_ in wanted if id_ in present])


def _sizes(git: Git, ids: Sequence[str]) -> dict[str, int]:
    sizes = {}
    with git.stream("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", asked=ids) as lines:
        for line in lines:
            id_, size = line.decode("ascii").split()
            if size != "missing":
                sizes[id_] = int(size)
    return sizes


def present_objects(git: Git, ids: Iterable[str]) -> set[str]:
    """Those of some objects that are in the repository, damaged ones too."""
    wanted = set(ids)
    present = set()
    check = "--batch-check=%(objectname)"
    with git.stream("cat-file", "--batch-all-objects", "--unordered", "--buffer", check) as lines:
        for line in lines:
            id_ = line.decode("ascii").strip()
            if id_ in wanted:
                present.add(id_)
    return present


def read_blobs(git: Git, ids: Sequence[str]) -> Generator[bytes, None, None]:
    """The contents of blobs in the given order. Raises ``MissingObjectError`` if one is missing."""
    with git.stream("cat-file", "--batch", "--buffer", asked=ids) as objects:
        for id_ in ids:
            head = objects.readline().split()
            if len(head) != 3:
                raise MissingObjectError(f"{git.path}: object {id_} cannot be read; git fsck shows which are missing")
            yield objects.read(int(head[2]))
            objects.read(1)  # a line feed
