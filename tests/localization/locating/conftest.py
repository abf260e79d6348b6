"""A small repository whose history is known, made by ``git fast-import``."""

import os
import subprocess

import pytest

from gedbd.localization.locating.repository_index import open_repository

START = 1_700_000_000  # 2023-11-14T22:13:20Z
DAY = 86_400
PARSER = b"class QuotedParser {\n    void parseQuoted() { delimiter(); }\n}\n"


class Repository:
    """A bare repository that tests add commits to; commit n is made on day n."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "-q", "--bare", "--initial-branch=main", str(folder), inside=False)
        self.count = 0

    def git(self, *words, stream=None, inside=True):
        """Runs git and gives its output."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        place = ["-C", str(self.folder)] if inside else []
        done = subprocess.run(["git", *place, *words], input=stream, check=True, capture_output=True, env=variables)
        return done.stdout.decode().strip()

    def add(self, *commits, parent="refs/heads/main^0", branch="refs/heads/main"):
        """Adds commits of (message, {path: content}) one after the other, and gives their ids."""
        stream = bytearray()
        first = self.count + 1
        for message, files in commits:
            self.count += 1
            date = START + self.count * DAY
            data = message if isinstance(message, bytes) else message.encode()
            stream += b"commit %s\nmark :%d\n" % (branch.encode(), self.count)
            stream += b"committer A U Thor <author@example.org> %d +0000\ndata %d\n%s\n" % (date, len(data), data)
            if self.count > first:
                stream += b"from :%d\n" % (self.count - 1)
            elif first > 1:
                stream += b"from %s\n" % parent.encode()
            for path, content in files.items():
                stream += b'M 100644 inline "%s"\ndata %d\n%s\n' % (path.encode(), len(content), content)
        marks = self.folder / "marks"
        self.git("fast-import", "--quiet", "--force", f"--export-marks={marks}", stream=bytes(stream))
        found = dict(line.split() for line in marks.read_text().splitlines())
        return [found[f":{number}"] for number in range(first, self.count + 1)]

    def ids(self, revision="main"):
        """The ids that git itself lists."""
        return set(self.git("rev-list", revision).split())


@pytest.fixture
def make_repository(tmp_path):
    """Makes an empty repository of some name."""
    return lambda name="project.git": Repository(tmp_path / name)


@pytest.fixture
def repository(make_repository):
    """Four commits, of which the second adds the parser of quoted values."""
    made = make_repository()
    made.add(
        ("Begin the project", {"README": b"a project\n"}),
        ("Parse quoted values", {"src/QuotedParser.java": PARSER, "notes.txt": b"x\n"}),
        ("Print tables", {"src/TablePrinter.java": b"class TablePrinter { void print() { columns(); } }\n"}),
        ("Correct the manual", {"README": b"a project with a manual\n"}),
    )
    return made


@pytest.fixture
def open_index(tmp_path):
    """Opens the index of a repository in a folder of the test."""
    return lambda made, **options: open_repository(made.folder, tmp_path / "cache", **options)
