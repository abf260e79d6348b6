"""Which commits of a partial clone cannot be read, as objects of their changes were not fetched."""

from collections.abc import Iterator, Sequence

from gedbd.localization.repository.git_command import Git, MissingObjectError
from gedbd.localization.repository.objects import SUBMODULE_MODE, present_objects
from gedbd.localization.repository.walk import WalkedCommit

ADVICE = "their objects are missing, as in a partial clone; git fetch --refetch --no-filter fetches them"
# Only trees are read: each file that differs, with the ids of both versions.
CHANGED_FILES = (
    *("diff-tree", "--stdin", "--root", "--always", "-r", "--raw", "--no-abbrev", "--no-renames", "--no-relative"),
    *("--no-ext-diff", "--no-color", "--ignore-submodules=none", "-O/dev/null"),
)


def incomplete_commits(git: Git, commits: Sequence[WalkedCommit]) -> set[str]:
    """The ids of the commits that cannot be compared with their first parents, as trees or files are missing.

    Nothing is fetched. All objects of the repository are listed, in a second for a few million.

    Raises:
        ValueError: A commit is missing, or an object is damaged.
    """
    trees = _trees(git, commits)
    present = present_objects(git, trees.values())
    pairs = [(commit.id, commit.first_parent) for commit in commits]
    whole = [pair for pair in pairs if all(trees[id_] in present for id_ in pair if id_)]
    needed: dict[str, set[str]] = {}
    while whole:
        num_read = 0
        try:
            for id_, files in _changed_files(git, whole):
                needed[id_] = files
                num_read += 1
            break
        except MissingObjectError:
            whole = whole[num_read + 1 :]  # a folder of the next one is missing
    present = present_objects(git, (file for files in needed.values() for file in files))
    complete = {id_ for id_, files in needed.items() if files <= present}
    return {commit.id for commit in commits} - complete


def _trees(git: Git, commits: Sequence[WalkedCommit]) -> dict[str, str]:
    """The ids of the trees of some commits and of their first parents."""
    ids = {id_ for commit in commits for id_ in (commit.id, commit.first_parent) if id_}
    trees = {}
    with git.stream("rev-list", "--no-walk=unsorted", "--format=%H %T", "--stdin", asked=sorted(ids)) as lines:
        for line in lines:
            if not line.startswith(b"commit "):
                id_, tree = line.decode("ascii").split()
                trees[id_] = tree
    return trees


def _changed_files(git: Git, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, set[str]]]:
    """Each commit, and the ids of both versions of the files that differ from its first parent.

    Raises:
        MissingObjectError: A folder of the commit after the last one that was given is missing.
    """
    id_ = ""
    files: set[str] = set()
    failure: MissingObjectError | None = None
    try:
        with git.stream(*CHANGED_FILES, asked=(" ".join(pair).rstrip() for pair in pairs)) as lines:
            for line in lines:
                if not line.startswith(b":"):
                    if id_:
                        yield id_, files
                    id_ = line.decode("ascii").strip()
                    files = set()
                    continue
                # ":100644 000000 ID 000..0 D<tab>path"; a mode of zeros is a missing side.
                old_mode, new_mode, old_id, new_id = line[1:].decode("ascii", "replace").split()[:4]
                sides = ((old_mode, old_id), (new_mode, new_id))
                files.update(file for mode, file in sides if int(mode) and mode != SUBMODULE_MODE)
    except MissingObjectError as error:
        failure = error
    if id_:
        yield id_, files  # Git writes a commit as a whole before it begins with the next one
    if failure is not None:
        raise failure
