"""The command git on own, foreign and hostile repositories, and its texts in any encoding."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from git_repository import FastImport, read_history

from gedbd.localization.repository import git_command
from gedbd.localization.repository.git_command import Git, cut_line, decode_message
from gedbd.localization.repository.inducing import blame_lines


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    made = FastImport()
    made.commit(b"one", [("a.txt", b"first\n"), (".gitattributes", b"* diff=evil filter=evil\n")], parents=[])
    made.commit(b"two", [("a.txt", b"second\n")])
    folder = tmp_path_factory.mktemp("git") / "repository.git"
    return folder, made.write(folder)


def run(*arguments, check=True):
    return subprocess.run(["git", *map(str, arguments)], capture_output=True, text=True, check=check)


def test_a_work_tree_a_folder_in_it_and_a_bare_repository_are_the_same(repository, tmp_path):
    folder, ids = repository
    run("clone", "-q", folder, tmp_path / "clone")
    (tmp_path / "clone" / "inner").mkdir()
    run("-C", tmp_path / "clone", "worktree", "add", "-q", tmp_path / "linked")
    for path in (folder, tmp_path / "clone", str(tmp_path / "clone" / "inner"), tmp_path / "linked"):
        assert [commit.id for commit in read_history(path)] == ids


def test_a_repository_of_sha_256_names(repository, tmp_path):
    if run("init", "-q", "--object-format=sha256", tmp_path, check=False).returncode != 0:
        pytest.skip("this git has no SHA-256 repositories")
    (tmp_path / "a.txt").write_text("first\n")
    run("-C", tmp_path, "add", "a.txt")
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    run("-C", tmp_path, *author, "commit", "-q", "-m", "one")
    (commit,) = read_history(tmp_path)
    assert len(commit.id) == 64
    assert [file.path for file in commit.files] == ["a.txt"]
    assert blame_lines(Git(tmp_path), "HEAD", "a.txt", [1])[0].commit_id == commit.id


def test_what_cannot_be_read_is_refused(tmp_path, repository, monkeypatch):
    (tmp_path / "x.bundle").write_text("")
    for name, message in (("missing", "no such folder"), ("x.bundle", "this is a file"), (".", "not a git repository")):
        with pytest.raises(ValueError, match=message) as error:
            Git(tmp_path / name)
        assert "\n" not in str(error.value)
    run("clone", "-q", "--depth=1", f"file://{repository[0]}", tmp_path / "clone")
    with pytest.raises(ValueError, match="git fetch --unshallow"):
        Git(tmp_path / "clone")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="git is not installed"):
        Git(repository[0])
    write_program(tmp_path / "git", "echo git version 2.30.9")
    with pytest.raises(ValueError, match=r"install git 2\.31 or later"):
        Git(repository[0])


@pytest.mark.usefixtures("hang_guard")
@pytest.mark.parametrize("name", ["packed-refs", "refs/heads/main", "objects/info/alternates", "HEAD"])
def test_a_file_that_never_ends_is_not_waited_for(repository, tmp_path, monkeypatch, name):
    monkeypatch.setattr(git_command, "MAX_START_S", 0.5)
    monkeypatch.setattr(git_command, "MAX_SILENCE_S", 0.5)
    folder = Path(shutil.copytree(repository[0], tmp_path / "copy"))
    git = Git(folder)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ValueError, match=rf"{name} is not a regular file|copy: git has written nothing for 0\.5 sec"):
        Git(folder)
    with pytest.raises(ValueError, match=r"nothing for 0\.5 sec"), git.stream("log", "--all", "-p") as output:
        output.read()


@pytest.mark.parametrize("revision", ["nowhere", "--all", "-h", "HEAD:a.txt", ""])
def test_a_revision_that_names_no_commit(repository, revision):
    with pytest.raises(ValueError, match="is not a commit; the newest references are main"):
        read_history(repository[0], revision)


def test_the_output_may_be_left_early(repository):
    git = Git(repository[0])
    many = [repository[1][0]] * 100_000  # more than a pipe holds
    with git.stream("cat-file", "--batch", lines=many) as lines:
        assert lines.readline()
        lines.close()
    with git.stream("cat-file", "--batch", lines=many, seconds=0) as lines:
        lines.read()  # ends
    with pytest.raises(ValueError, match="git cat-file failed"), git.stream("cat-file", "--nonsense") as lines:
        lines.read()


def test_a_repository_of_another_user(repository, tmp_path, monkeypatch):
    folder = tmp_path / "other.git"
    shutil.copytree(repository[0], folder)
    try:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 12_345, 12_345)
    except PermissionError:
        pytest.skip("only root can give a folder to another user")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"git config --global --add safe\.directory"):
        Git(folder)
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {folder}\n")
    assert len(list(read_history(folder))) == 2


def test_a_damaged_object(tmp_path):
    made = FastImport()
    made.commit(b"one", [("a.txt", b"first\n")], parents=[])
    made.commit(b"two", [("a.txt", b"second\n")])
    made.write(tmp_path / "x.git")
    blob = run("-C", tmp_path / "x.git", "rev-parse", "HEAD:a.txt").stdout.strip()
    file = tmp_path / "x.git" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="git diff-tree failed") as error:
        list(read_history(tmp_path / "x.git", cache_dir=tmp_path / "cache"))
    assert "git fsck" in str(error.value)


def write_program(file: Path, command: str) -> str:
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def hostile(repository, tmp_path, monkeypatch):
    """A work tree whose settings change diffs and, as attributes and hooks, name a program; and the program's trace."""
    trace = tmp_path / "trace"
    program = write_program(tmp_path / "program", f'echo "$0 $*" >> {trace}\ncat "$1" 2>/dev/null')
    folder = tmp_path / "hostile"
    run("clone", "-q", repository[0], folder)
    keys = ("core.fsmonitor", "core.sshCommand", "core.askPass", "core.pager", "core.editor", "core.gitProxy")
    keys += ("core.alternateRefsCommand", "diff.external", "diff.evil.command", "diff.evil.textconv", "gpg.program")
    keys += ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "credential.helper", "pager.blame")
    settings = dict.fromkeys(keys, program) | {"log.showSignature": "true", "core.hooksPath": str(tmp_path / "hooks")}
    settings |= {"alias.rev-list": f"!{program}", "blame.ignoreRevsFile": "missing", "core.worktree": str(tmp_path)}
    settings |= {"diff.noprefix": "true", "diff.context": "0", "color.ui": "always"}
    settings |= {"diff.renames": "false", "diff.algorithm": "patience", "i18n.logOutputEncoding": "utf-16"}
    settings |= {"remote.evil.url": f"ext::{program}", "protocol.ext.allow": "always"}
    settings |= {"extensions.partialClone": "evil", "core.repositoryFormatVersion": "1"}
    for key, value in settings.items():
        run("config", "--file", folder / ".git" / "config", key, value)
    (folder / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n")
    (tmp_path / ".gitattributes").write_text("* diff=evil\n")
    (tmp_path / "hooks").mkdir()
    write_program(tmp_path / "hooks" / "post-index-change", program)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", program)
    monkeypatch.setenv("GIT_SSH_COMMAND", program)
    monkeypatch.setenv("GIT_PAGER", program)
    return folder, trace


def test_a_hostile_repository_runs_nothing(repository, hostile):
    folder, trace = hostile
    assert list(read_history(folder)) == list(read_history(repository[0]))
    assert blame_lines(Git(folder), "HEAD", "a.txt", [1])[0].commit_id == repository[1][1]
    assert not trace.exists(), trace.read_text()
    run("-C", folder, "log", "-p", "--ext-diff", check=False)
    assert trace.exists()  # the trap works


def test_objects_missing_from_a_partial_clone_are_not_fetched(repository, hostile):
    folder, trace = hostile
    blob = run("-C", repository[0], "rev-parse", "HEAD:a.txt").stdout.strip()
    objects = folder / ".git" / "objects"
    (objects / blob[:2] / blob[2:]).unlink()
    trace.unlink(missing_ok=True)
    history = read_history(folder)
    assert [commit.id for commit in history] == repository[1][:1]
    assert history.warnings[0].startswith("1 commits are left out: their objects are missing, as in a partial clone; ")
    assert not trace.exists(), trace.read_text()
    run("-C", folder, "cat-file", "-p", blob, check=False)
    assert "program" in trace.read_text()  # the trap works


def test_an_outer_git_process_does_not_redirect(repository, tmp_path, monkeypatch):
    run("init", "-q", tmp_path / "outer")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "outer" / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "diff.noprefix")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert [commit.id for commit in read_history(repository[0])] == repository[1]


@pytest.mark.parametrize("encoding", ["idna", "punycode", "zlib", "undefined", "unicode_escape", "no such", "a\0b"])
def test_what_is_no_encoding_of_messages_is_not_used(encoding):
    assert decode_message(b"caf\xe9 \\u0041", encoding) == ("café \\u0041", False)


def test_a_cut_line_ends_with_a_whole_character():
    line = "aé€😀".encode()
    cut = [cut_line(line[:end]).decode() for end in range(1, len(line))]
    # Characters of 1, 2, 3 and 4 bytes. A last one outside of ASCII is dropped even if all of its bytes are there.
    assert cut == ["a", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€"]
