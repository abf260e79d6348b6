"""The notebooks run as they are, and the figures of the manual are those that its script draws."""

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MAX_BYTES = 100_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small(path):
    assert path.stat().st_size < MAX_BYTES
    assert json.loads(path.read_text())["nbformat"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": tmp_path}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in printed)


@pytest.mark.integration
@pytest.mark.parametrize(("encoder", "dim"), [("tiny", 16), pytest.param("minilm", 384, marks=pytest.mark.slow)])
def test_the_script_trains_and_encodes(encoder, dim, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    script = (EXAMPLES / "train.py").read_text()
    assert len(script.splitlines()) == 15
    exec(compile(script.replace("minilm", encoder), "train.py", "exec"), {})
    assert f"(2, {dim})" in capsys.readouterr().out


MEASURED = "dense_graph.svg"  # the rounding errors in it depend on the processor and the number of threads
DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.slow
def test_the_figures_are_as_the_script_draws_them(tmp_path):
    spec = importlib.util.spec_from_file_location("draw_figures", DOCS / "draw_figures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 6
    for path in drawn:
        text, shown = (file.read_text() for file in (path, DOCS / "images" / path.name))
        if path.name == MEASURED:
            text, shown = (re.sub(r"[\d.]+", "", svg) for svg in (text, shown))
        assert text == shown, path.name
