"""What a stranger writes into a tracker stays text in reports, tables and captions; ids follow one rule."""

import csv
from pathlib import Path

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from gedbd.corpora.captions import read_captions, write_captions
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.evaluation.report.report_page import markdown, show, write_report
from gedbd.evaluation.report.section import Section
from gedbd.io.table_files import safe_cells
from gedbd.triage.report import Report, check_report

TITLES = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a\n# heading\n\n<b>bold</b>",
    "a\r\n\r\n- item",
    "a\u2028# heading",
    "a | b | c",
    "a \\| b",
    "a \\",
    "[click](javascript:alert(1))",
    "![pixel](http://evil.example/x.png)",
    "[click][1]",
    "<http://evil.example>",
    "&lt;script&gt;",
    "**bold** _slanted_ `code` ~~gone~~",
    "<!-- end -->",
    "# heading",
    "> quoted",
    "1. item",
    "--- | ---",
    "snake_case_name [0.1, 0.2] (kept)",
]
FORMULAS = [
    '=HYPERLINK("http://evil.example")',
    "+1+1",
    "-1+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1",
    "\uff1d1+1",
    " =1+1",
    "\ufeff=1+1",
    "\u200b\u00a0@SUM(1)",
    '"=1+1',
    "'=1+1",
    '\ufeff "\uff0b1',
    "\x07-1+1",
]
ODD_IDS = ["A 1", "A\u00a01", "A\t1", "A\x001", "A\x7f1", "A\u20031", "A\x851", "A" * 201]
COLUMNS = {"id": "id", "title": "title", "duplicate": None}


def cells(lines: list[str]) -> list[list[str]]:
    """What a reader of the table sees in its rows."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse("\n".join(lines))
    texts = []
    for token in tokens:
        if token.type == "inline":
            kinds = {child.type for child in token.children or []}
            assert kinds <= {"text", "text_special", "code_inline"}, token.content
            texts.append("".join(child.content for child in token.children or []))
    assert [token.type for token in tokens if token.type in {"html_block", "heading_open", "list_item_open"}] == []
    return [texts[start : start + 2] for start in range(0, len(texts), 2)]


@pytest.mark.parametrize("title", TITLES)
def test_a_title_in_a_table_of_markdown_shows_as_it_is_written(title):
    table = pd.DataFrame({"title of report": [title, "second"], "report": ["1", "2"]})
    shown = cells(markdown(show(table)))
    assert shown[1:] == [[" ".join(title.split()), "1"], ["second", "2"]]


def test_a_report_holds_no_html_and_no_heading_of_a_tracker(tmp_path):
    table = pd.DataFrame({"title": TITLES})
    write_report(tmp_path, "Backtest: <b>\n# mine", "All <i>is</i> well.", [Section("Wrong", "Look at them.", [table])])
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse((tmp_path / "report.md").read_text())
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or []}
    markup = ("html", "link", "image", "code_block", "fence", "strong", "em_", "s_")
    assert not {kind for kind in kinds if kind.startswith(markup)}
    assert sum(token.type == "heading_open" for token in tokens) == 2


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_table_is_run(tmp_path, formula):
    table = pd.DataFrame(
        {"report": [formula, "-7"], "title": ["fine", formula], "score": [-0.5, 0.5], "first": [1, -2]}
    )
    safe_cells(table).to_csv(tmp_path / "wrong.csv", index=False)
    with (tmp_path / "wrong.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    text = formula.replace("\r", "\n")
    assert rows[1:] == [[f"'{text}", "fine", "-0.5", "1"], ["'-7", f"'{text}", "0.5", "-2"]]


@pytest.mark.parametrize("column", [["=1", None], ["=1", 3], ["=1", float("nan")], pd.Categorical(["=1", "b"])])
def test_no_cell_is_run_beside_values_of_another_kind(column):
    table = pd.DataFrame({"title": column, "date": pd.to_datetime(["2024-01-31", None], utc=True)})
    assert safe_cells(table)["title"].tolist()[0] == "'=1"
    assert safe_cells(table).to_csv().count("2024-01-31") == 1


def test_no_text_begins_a_row_of_its_own(tmp_path):
    table = pd.DataFrame({"title": ["a\r=1+1", 'b",=1+1', "c\n=1+1", "d\r\n=1+1"], "score": [1, 2, 3, 4]})
    safe_cells(table).to_csv(tmp_path / "hubs.csv", index=False)
    with (tmp_path / "hubs.csv").open(newline="") as file:
        assert [len(row) for row in csv.reader(file)] == [2] * 5


@pytest.mark.parametrize("formula", FORMULAS)
def test_captions_are_safe_and_read_back_unchanged(tmp_path, formula):
    name = formula.strip() + ".png"
    write_captions(
        tmp_path / "captions.csv", [(name, "", formula.strip() + " shown", "described"), ("'a'", "", "'=", "")]
    )
    with (tmp_path / "captions.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\uff1d"))]
    assert read_captions(tmp_path / "captions.csv")[name] == formula.strip() + " shown"


@pytest.mark.parametrize("issue_id", ODD_IDS)
def test_one_rule_for_ids_everywhere(tmp_path: Path, client_of, issue_id):
    (tmp_path / "reports.csv").write_text(f'id,title\n1,a\n"{issue_id}",b\n', encoding="utf-8")
    if "\x00" not in issue_id:
        with pytest.raises(
            ValueError,
            match=r"reports.csv, row 3, column 'id': .* is not a valid id \(1 in total\); an id has 1 to 200",
        ):
            read_csv(None, str(tmp_path / "reports.csv"), COLUMNS)
    with pytest.raises(ValueError, match="an id has 1 to 200 characters"):
        check_report(Report("a crash", issue_id=issue_id))
    client = client_of()
    assert client.post("/api/reports", json={"issue_id": issue_id, "title": "a crash"}).status_code == 422
    assert client.post("/api/search", json={"issue_id": issue_id, "title": "a crash"}).status_code == 422


def test_blanks_around_an_id_do_not_count(tmp_path, client_of):
    (tmp_path / "reports.csv").write_text("id,title\n 1 ,a\n\u00a0A-2\t,b\n", encoding="utf-8")
    assert read_csv(None, str(tmp_path / "reports.csv"), COLUMNS).reports["id"].tolist() == ["1", "A-2"]
    added = client_of().post("/api/reports", json={"issue_id": " A-2\u00a0", "title": "a crash"})
    assert added.json() == {"reports": {"A-2": "added"}}
    assert Report(issue_id="\tA-2 ").issue_id == "A-2"
