"""The examples of the API run: those of docstrings, with what they print, and those of the guide."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import gedbd

pytestmark = pytest.mark.integration

GUIDE = Path(gedbd.__file__).parents[1] / "docs" / "guides" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
CLASSES = ("BugReports", "DuplicateDetector", "Encoder", "Index")
DOCUMENTED = (*CLASSES, "backtest", "compare", "fit", "load_corpus", "rank")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("GEDBD_CACHE", cache)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [*DOCUMENTED, "gedbd"])
def test_the_example_of_a_docstring_prints_what_it_shows(name):
    # Not getattr: after another test has imported the command of this name, that gives its module.
    text = inspect.getdoc(gedbd if name == "gedbd" else gedbd.__getattr__(name))
    test = doctest.DocTestParser().get_doctest(text or "", {}, name, None, 0)
    assert test.examples
    said: list[str] = []
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.slow
def test_the_blocks_of_the_guide_run_one_after_the_other(tmp_path, demo):
    usual = {"id": "Issue_id", "title": "Title", "description": "Description", "created_at": "Created_time"}
    table = demo.reports[list(usual)].rename(columns=usual)
    master = demo.reports["id"].to_numpy()[demo.group]
    table["Duplicated_issue"] = [one if one != own else "" for one, own in zip(master, table["Issue_id"], strict=True)]
    table.to_csv(tmp_path / "bugs.csv", index=False)
    names: dict[str, object] = {}
    for block in BLOCKS:
        # The small random encoder, which takes seconds.
        exec(compile(block.replace('"minilm"', '"tiny"'), str(GUIDE), "exec"), names)
    assert {name: type(names[name]).__name__ for name in ("corpus", "run", "fusion", "tested")} == {
        "corpus": "Corpus",
        "run": "TrainingRun",
        "fusion": "RankingResult",
        "tested": "BacktestResult",
    }


@pytest.mark.slow
def test_the_training_of_the_readme_runs():
    readme = Path(gedbd.__file__).parents[1] / "README.md"
    (block,) = re.findall(r"^```python\n([^`]*gedbd\.fit[^`]*)^```", readme.read_text(), re.MULTILINE)
    exec(compile(block.replace("minilm", "tiny"), str(readme), "exec"), {"gedbd": gedbd})
