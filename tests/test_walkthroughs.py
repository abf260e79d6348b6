"""The walk-throughs of the manual: their files are written, and their commands run, one after the other."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "contributing").glob("add_*.md"))
QUICK = "add_dataset"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def run(line, folder):
    """Runs one command line of a page as a shell would, with this environment's Python."""
    words = shlex.split(line)
    given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    assert words[len(given)] == "gedbd"
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = os.environ | given | {"PYTHONPATH": path}
    command = [sys.executable, "-c", "from gedbd.cli import main; main()", *words[len(given) + 1 :]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem != QUICK)) for page in PAGES]
)
def test_a_walk_through_works_as_it_is_written(page, tmp_path):
    commands = []
    for language, text in BLOCK.findall(page.read_text()):
        if language == "bash":
            commands += text.splitlines()
            continue
        name, _, content = text.partition("\n")
        file = tmp_path / name.removeprefix("# ")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert commands
    for line in commands:
        run(line, tmp_path)
