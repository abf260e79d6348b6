"""Repositories of made-up commits, written by ``git fast-import``; commit n is made on day n."""

import os
import subprocess
from datetime import datetime

from gedbd.localization.repository.commit_history import History
from gedbd.localization.repository.git_command import Git

START = 1_700_000_000  # 2023-11-14T22:13:20Z
DAY = 86_400


def git(*words, stream=None):
    """Runs Git, but not as part of a Git process that runs the tests, and gives its output."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *map(str, words)], input=stream, check=True, capture_output=True, env=variables)
    return done.stdout.decode().strip()


def read_history(path, *arguments, **options):
    return History(Git(path), *arguments, **options)


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


class FastImport:
    """A stream of commits, each of which is named by its number from 1."""

    def __init__(self, branch="refs/heads/main", start=1_000_000_000):  # 2001-09-09T01:46:40Z
        self.branch, self.start = branch.encode(), start
        self.stream = bytearray()
        self.count = 0

    def commit(self, message=b"change", files=(), parents=None, date=None, encoding=b""):
        """Files are (path, content); content is bytes, None to delete, or (mode, bytes or object name)."""
        self.count += 1
        parents = [self.count - 1] * (self.count > 1) if parents is None else parents
        date = self.start + self.count * DAY if date is None else date
        self.stream += b"commit %s\nmark :%d\n" % (self.branch, self.count)
        self.stream += b"committer A U Thor <author@example.org> %d +0200\n" % date
        self.stream += b"encoding %s\n" % encoding if encoding else b""
        self.stream += b"data %d\n%s\n" % (len(as_bytes(message)), as_bytes(message))
        for number, parent in enumerate(parents):
            named = parent.encode() if isinstance(parent, str) else b":%d" % parent
            self.stream += b"%s %s\n" % (b"merge" if number else b"from", named)
        for path, content in files:
            quoted = as_bytes(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            if data is None:
                self.stream += b'D "%s"\n' % quoted
            elif isinstance(data, str):
                self.stream += b'M %s %s "%s"\n' % (mode.encode(), data.encode(), quoted)
            else:
                self.stream += b'M %s inline "%s"\ndata %d\n%s\n' % (mode.encode(), quoted, len(data), data)

    def write(self, folder):
        """Adds the commits to a bare repository, which is made first, and gives their ids, that of the first first."""
        git("init", "-q", "--bare", "--initial-branch=main", folder)
        marks = folder / "marks"
        options = ("--quiet", "--force", "--date-format=raw-permissive", f"--export-marks={marks}")
        git("-C", folder, "fast-import", *options, stream=bytes(self.stream))
        found = dict(line.split() for line in marks.read_text().splitlines())
        return [found[f":{number}"] for number in range(1, self.count + 1)]


def write_history(folder, history):
    """Writes commits of (message, day of 2020, {path: text, lines or None to delete}) and gives their ids."""
    made = FastImport()
    for message, day, files in history:
        texts = {
            path: "".join(f"{line}\n" for line in text) if isinstance(text, list) else text
            for path, text in files.items()
        }
        noon = datetime.fromisoformat(f"2020-{day}T12:00:00+00:00")
        made.commit(
            message, [(path, text and text.encode()) for path, text in texts.items()], date=int(noon.timestamp())
        )
    return made.write(folder)


class Repository:
    """A bare repository that tests add commits to."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        FastImport().write(folder)

    def git(self, *words):
        """Runs Git in the repository and gives its output."""
        return git("-C", self.folder, *words)

    def add(self, *commits, parent="refs/heads/main^0", branch="refs/heads/main"):
        """Adds commits of (message, {path: content}) one after the other, and gives their ids."""
        made = FastImport(branch, START + self.count * DAY)
        for message, files in commits:
            is_next = self.count and not made.count
            made.commit(message, files.items(), parents=[parent] if is_next else None)
        self.count += len(commits)
        return made.write(self.folder)

    def ids(self, revision="main"):
        """The ids that Git itself lists."""
        return set(self.git("rev-list", revision).split())
