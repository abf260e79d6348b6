import json
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from gedbd.evaluation.report.optional_sections import task_figures
from gedbd.evaluation.report.report_page import write_report
from gedbd.evaluation.report.run_settings import group_settings
from gedbd.evaluation.run_folders import Run


def add_figure(run: Run, name: str, caption: str, title: str) -> None:
    (run.folder / "figures").mkdir(exist_ok=True)
    (run.folder / "figures" / "captions.json").write_text(json.dumps({name: caption}))
    figure = Figure(figsize=(2, 1))
    figure.suptitle(title)
    figure.savefig(run.folder / "figures" / f"{name}.png", dpi=50)


@pytest.fixture
def runs(leave: Callable[..., Run]) -> list[Run]:
    runs = [leave("first", "graph=none"), leave("second", "graph=knn"), leave("third", "graph=dense")]
    for run, title in zip(runs, ("same", "same", "other"), strict=True):
        add_figure(run, "tag_network", "the tags <b>", title)
    return runs


def test_equal_figures_of_a_task_are_shown_once_in_a_section_of_their_own(runs, leave, tmp_path):
    settings = group_settings([*runs, leave("without", "graph=threshold")])
    (section,) = task_figures(settings)
    assert section.title == "Tag network"
    assert [name for name, _, _ in section.figures] == ["tag_network_0", "tag_network_1"]
    assert all(caption.endswith("demo: the tags <b>") for _, caption, _ in section.figures)
    page = write_report(tmp_path, "title", "summary", [section]).read_text()
    assert "<h2>Tag network</h2>" in page
    assert page.count("data:image/png;base64,") == 2
    assert "the tags &lt;b&gt;" in page
    written = tmp_path / "report_figures" / "tag-network-0.png"
    sources = [(run.folder / "figures" / "tag_network.png").read_bytes() for run in runs]
    assert written.read_bytes() in sources


def test_without_such_figures_there_is_no_section(leave):
    assert task_figures(group_settings([leave("plain", "graph=none")])) == []


def test_a_damaged_file_is_named(runs, tmp_path):
    (runs[0].folder / "figures" / "tag_network.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"tag_network.png is damaged: it is not a PNG file"):
        write_report(tmp_path, "title", "summary", task_figures(group_settings(runs[:1])))
    (runs[1].folder / "figures" / "captions.json").write_text('{"../elsewhere": "x"}')
    with pytest.raises(ValueError, match=r"captions.json is damaged: '../elsewhere' is not the name of a figure"):
        task_figures(group_settings(runs[1:2]))
