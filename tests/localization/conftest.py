"""Repositories of made-up commits, written by ``git fast-import``."""

import os
import subprocess

import pytest

START = 1_000_000_000  # 2001-09-09T01:46:40Z
DAY = 86_400


class FastImport:
    """Writes a stream of commits; each is named by its number from 1."""

    def __init__(self):
        self.stream = bytearray()
        self.count = 0

    def commit(self, message=b"change", files=(), parents=None, date=None, encoding=b""):
        """Files are (path, content); content is bytes, None to delete, or (mode, bytes or object name)."""
        self.count += 1
        parents = [self.count - 1] * (self.count > 1) if parents is None else parents
        date = START + self.count * DAY if date is None else date
        self.stream += b"commit refs/heads/main\nmark :%d\n" % self.count
        self.stream += b"committer A <a@example.org> %d +0200\n" % date
        self.stream += b"encoding %s\n" % encoding if encoding else b""
        self.stream += b"data %d\n%s\n" % (len(message), message)
        for number, parent in enumerate(parents):
            self.stream += (b"merge" if number else b"from") + b" :%d\n" % parent
        for path, content in files:
            self.add(path if isinstance(path, bytes) else path.encode(), content)
        return self.count

    def add(self, path, content):
        quoted = b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
        mode, data = content if isinstance(content, tuple) else ("100644", content)
        if data is None:
            self.stream += b"D %s\n" % quoted
        elif isinstance(data, str):
            self.stream += f"M {mode} {data} ".encode() + quoted + b"\n"
        else:
            self.stream += f"M {mode} inline ".encode() + quoted + b"\ndata %d\n%s\n" % (len(data), data)

    def write(self, folder):
        """Makes a bare repository of the commits and returns their ids: ids[0] is that of the first."""
        # Those of a Git process that runs the tests name its own repository.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        run = ["git", "init", "-q", "--bare", "--initial-branch=main", str(folder)]
        subprocess.run(run, check=True, env=variables)
        run = ["git", "-C", str(folder), "fast-import", "--quiet", "--force", "--date-format=raw-permissive"]
        subprocess.run([*run, f"--export-marks={folder}/marks"], input=bytes(self.stream), check=True, env=variables)
        marks = dict(line.split() for line in (folder / "marks").read_text().splitlines())
        return [marks[f":{number}"] for number in range(1, self.count + 1)]


@pytest.fixture(scope="session")
def fast_import():
    """The class of streams: ``fast_import()`` begins one."""
    return FastImport
