"""The figures of the manual's concepts are those that its script draws."""

import importlib.util
import re
from pathlib import Path

import pytest

MEASURED = "dense_graph.svg"  # the rounding errors in it depend on the processor and the number of threads
DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.slow
def test_the_figures_are_as_the_script_draws_them(tmp_path):
    spec = importlib.util.spec_from_file_location("draw_figures", DOCS / "draw_figures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 5
    for path in drawn:
        text, shown = (file.read_text() for file in (path, DOCS / "images" / path.name))
        if path.name == MEASURED:
            text, shown = (re.sub(r"[\d.]+", "", svg) for svg in (text, shown))
        assert text == shown, path.name
