"""Figures as files, and whether readers with colour blindness tell the colours apart."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from gedbd.evaluation.figures import LINES, MARGINS, SERIES, colour, line_style, name_subject, save_figure

pytestmark = pytest.mark.figures

# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
NOTICED = 10  # a CIELAB distance that is seen at a glance; 2 is the smallest that is seen at all


def lab(linear):
    """CIELAB of a colour in linear RGB."""
    x, y, z = np.cbrt(TO_XYZ @ np.clip(linear, 0, 1) / TO_XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_differ_for_every_reader(deficiency):
    srgb = np.array([to_rgb(one) for one in SERIES])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = [lab(np.asarray(DEFICIENCIES[deficiency]) @ one) for one in linear]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > NOTICED


def test_lines_differ_after_all_colours_are_used():
    lines = {(colour(place), line_style(place)) for place in range(len(SERIES) * len(LINES))}
    assert len(lines) == len(SERIES) * len(LINES)


def drawn(layout):
    figure = Figure(figsize=(4, 3), layout=layout)
    axis = figure.subplots(gridspec_kw=None if layout else MARGINS)
    axis.plot([1, 2], [3, 4])
    axis.set_title("Loss")
    return figure


@pytest.mark.parametrize("text", [r"$\frac a$", "costs $5 or $6", "$", "a \x1b[31m\u202eb\x00"])
def test_texts_are_neither_formulas_nor_control_signs(text, tmp_path):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    left.barh([text, "b"], [1, 1000])
    left.set(title=text, xlabel=text, xscale="log")
    right.plot([1, 2], [0, 1], label=text)
    right.set_xticks([1, 2], labels=[text, "second"])
    right.annotate(text, (1, 1))
    right.legend()
    for file in save_figure(name_subject(figure, text), tmp_path / "figure"):
        assert file.stat().st_size > 1000
    svg = ElementTree.parse(tmp_path / "figure.svg")
    assert any("mathdefault" in str(label.get_text()) for label in left.get_xticklabels())  # numbers stay powers of ten
    assert svg.getroot().tag.endswith("svg")


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_both_files_name_the_subject_and_are_the_same_again(layout, tmp_path):
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        figure = name_subject(drawn(layout), "demo: minilm")
        name_subject(figure, "another")  # the first one stays
        files = save_figure(figure, folder / "loss")
        assert [file.name for file in files] == ["loss.svg", "loss.png"]
    svg, png = files
    assert "<!-- demo: minilm -->" in svg.read_text()
    assert "another" not in svg.read_text()
    assert "<dc:date>" not in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    for file in files:
        assert file.read_bytes() == (tmp_path / "first" / file.name).read_bytes()
