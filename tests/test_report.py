"""The report over real run folders, and the command that compares two of them."""

import re
from pathlib import Path

import pandas as pd
import pytest
from run_commands import commands_in

pytestmark = pytest.mark.slow  # eight trainings; tests/experiments/report and tests/test_protocols.py are quick

TINY = ["encoder=tiny", "trainer=smoke", "trainer.enable_progress_bar=false"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two graphs with two seeds each, the same with few labels and one seed, a sweep, and two baselines."""
    folder = tmp_path_factory.mktemp("runs")
    with commands_in(folder) as run:
        run("train", "-m", *TINY, "graph=none,dense", "seeds=2", "hydra.sweep.dir=all")
        run("train", "-m", *TINY, "graph=none,dense", "labels.fraction=0.1", "hydra.sweep.dir=few")
        run("train", "-m", *TINY, "fusion.lambda_text=0.3,0.7", "hydra.sweep.dir=grid")
        run("baseline", "name=bm25", "hydra.run.dir=bm25")
        run("baseline", "name=closure", "split=pair", "hydra.run.dir=closure")
    return folder


@pytest.fixture
def call(runs):
    """Calls a command in the folder of the runs; gives what it prints."""
    with commands_in(runs) as run:
        yield run


@pytest.fixture(scope="module")
def page(runs) -> Path:
    with commands_in(runs) as run:
        run("report", "all", "few", "grid", "bm25", "closure", "out=page")
    return runs / "page" / "report.html"


def headings(page: Path) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page.read_text())


def test_page_has_all_parts_names_its_command_and_needs_nothing_beside_it(page):
    assert headings(page) == [
        "Leak audit",
        "Ranking: demo",
        "By labels.fraction: demo",
        "By fusion.lambda_text: demo",
        "Pairs: demo",
        "Training",
        "t-SNE projection of reports",
        "Runs",
    ]
    text = page.read_text()
    assert "10 runs in 8 settings" in text
    assert "split=pair of demo leaks." in text
    assert "gedbd report all few grid bm25 closure out=page</pre>" in text
    assert set(re.findall(r'src="([^"]{0,22})', text)) == {"data:image/png;base64,"}
    assert not re.findall(r"<(?:script|link|iframe)|https?://|url\(", text)


def test_rows_with_equal_numbers_are_left_out_and_said(runs, call):
    call("report", "paths=[grid]", "out=equal")
    text = (runs / "equal" / "report.md").read_text()
    pairs = text.split("## Pairs: demo")[1].split("##")[0]
    assert pairs.count("| frozen encoder of ") == 1
    left_out = int(re.search(r"Left out: (\d+) of the other methods of a training", pairs)[1])
    assert left_out >= 1


def test_compare_matches_seeds(runs, call):
    assert "2 seeds" in call("compare", "run=all/1", "against=all/0", "out=difference.csv")
    table = pd.read_csv(runs / "difference.csv").set_index("metric")
    means = [
        pd.read_csv(runs / "all" / number / "seeds.csv").query(f"method == '{method}'")["mrr"].mean()
        for number, method in (("1", "text_graph"), ("0", "text"))
    ]
    assert table.loc["mrr", "difference"] == pytest.approx(means[0] - means[1])
    assert table.loc["mrr", "difference_low"] <= table.loc["mrr", "difference"] <= table.loc["mrr", "difference_high"]
    assert len(table.loc["mrr", "by_seed"].split()) == 2


def test_compare_takes_words_and_lists_of_folders_and_writes_latex(runs, call):
    call("compare", "all/1", "all/0", "out=whole.tex")
    seeds = [f"{side}=[all/{number}/seed_0,all/{number}/seed_1]" for side, number in (("run", 1), ("against", 0))]
    call("compare", *seeds, "out=listed.tex")
    text = (runs / "whole.tex").read_text()
    comment, _, table = text.partition("\n")
    assert comment == "% all/1 minus all/0"
    assert table == (runs / "listed.tex").read_text().partition("\n")[2]
    assert table.startswith("\\begin{tabular}")
    assert "& by seed" in table
    assert "difference 95\\%" in text
    assert "rr@10 & " in text
