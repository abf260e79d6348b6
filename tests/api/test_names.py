"""The names of the API: exactly those that are documented, imported when they are used first."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gedbd

ROOT = Path(gedbd.__file__).parents[1]
GUIDE = ROOT / "docs" / "guides" / "python.md"
LIGHT = """
import sys
import gedbd
assert set(gedbd.__all__) == set(dir(gedbd))
print(*{name.partition(".")[0] for name in sys.modules})
gedbd.Index
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_all_names_are_those_of_the_guide():
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `gedbd.")]
    named = re.findall(r"`gedbd\.(\w+)", "\n".join(rows))
    assert sorted(named) == sorted(set(gedbd.__all__))


@pytest.mark.parametrize("name", [name for name in gedbd.__all__ if name != "__version__"])
def test_every_name_is_found_and_documented(name):
    found = getattr(gedbd, name)
    assert inspect.getdoc(found)
    assert inspect.isclass(found) or inspect.isfunction(found) or callable(found)


def test_other_names_are_absent():
    with pytest.raises(AttributeError, match="module 'gedbd' has no attribute 'Corpora'"):
        _ = gedbd.Corpora


@pytest.mark.integration
def test_import_is_light_and_an_index_needs_nothing_that_trains():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, cwd=ROOT)
    first, second = (set(line.split()) for line in done.stdout.splitlines())
    assert not first & {"torch", "pandas", "numpy", "hydra", "omegaconf", "transformers"}
    assert not second & {"torch", "pytorch_lightning", "lightning", "transformers", "matplotlib", "sklearn"}
