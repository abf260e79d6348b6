"""The page and the Markdown file of some sections, and pages whose rows get buttons for a verdict."""

import base64
import hashlib
import re
from datetime import UTC, datetime

import pandas as pd
import pytest
from matplotlib.figure import Figure

from gedbd.experiments.report.judging import Judging, Verdict
from gedbd.experiments.report.report_page import Section, fill_tables, markdown, show, slug, write_report

COLUMNS = ["model", "seeds", "rr@10", "rr@10_low", "rr@10_high", "threshold"]
TABLE = pd.DataFrame([("a|b", 1, 0.5, 0.4, 0.6, 0.9), ("<c>", 3, 0.75, 0.7, 0.8, 0.1)], columns=COLUMNS)
LINKED = pd.DataFrame(
    {
        "report": ["A|1", "<b>", "3", "4"],
        "url of report": ["https://b.org/A|1?x=(1)&y=2", "javascript:alert(1)", "", None],
        "url of nothing": ["https://c.org", "", "", ""],
    }
)
EVIL = "</script><b>\"'"
PAIRS = pd.DataFrame({"verdict": ["", "duplicate"], "report": ["3", EVIL], "suggested": ["1", "2"]})
JUDGING = Judging("key <1>", "judgements.csv", "out", "gedbd judge", (Verdict(EVIL, "2", "accept"),))


def cells(shown, attribute: str = "text") -> list[list[object]]:
    return [[getattr(cell, attribute) for cell in row] for row in shown.rows]


def test_intervals_stand_behind_their_value_and_the_best_is_marked():
    shown = show(TABLE)
    assert shown.header == ["model", "seeds", "RR@10", "threshold"]
    assert shown.numeric == [False, True, True, True]
    assert cells(shown) == [
        ["a|b", "1", "0.500 [0.400, 0.600]", "0.900"],
        ["<c>", "3", "0.750 [0.700, 0.800]", "0.100"],
    ]
    assert cells(shown, "best") == [[False] * 4, [False, False, True, False]]
    assert cells(show(TABLE.head(1)), "best") == [[False] * 4]  # a single row wins nothing
    assert markdown(shown) == [
        "| model | seeds | RR@10 | threshold |",
        "| --- | ---: | ---: | ---: |",
        "| a\\|b | 1 | 0.500 [0.400, 0.600] | 0.900 |",
        "| &lt;c> | 3 | **0.750 [0.700, 0.800]** | 0.100 |",
    ]


def test_ids_with_an_address_are_links_that_open_in_a_tab_of_their_own(tmp_path):
    shown = show(LINKED)
    assert shown.header == ["report", "url of nothing"]
    assert [row[0] for row in cells(shown, "url")] == ["https://b.org/A|1?x=(1)&y=2", "", "", ""]
    assert markdown(shown)[2:4] == ["| [A\\|1](https://b.org/A%7C1?x=%281%29&y=2) | `https://c.org` |", "| &lt;b> |  |"]
    text = write_report(tmp_path, "T", "sum", [Section("A", "text", [LINKED])]).read_text()
    opened = 'target="_blank" rel="noopener noreferrer"'
    assert f'<td dir="auto"><a href="https://b.org/A|1?x=(1)&amp;y=2" {opened}>A|1</a></td>' in text
    assert '<td dir="auto">&lt;b&gt;</td>' in text
    assert "javascript" not in text


@pytest.mark.figures
def test_page_escapes_what_reports_say_and_figures_have_a_size(tmp_path):
    figure = Figure(figsize=(4, 3))
    figure.subplots().plot([0, 1])
    section = Section("A <b> & c", "text & <i>", [TABLE], [("one", 'a "figure" <x>', figure)])
    text = write_report(tmp_path, "T <1>", "sum", [section]).read_text()
    assert "<title>T &lt;1&gt;</title>" in text
    assert '<td dir="auto">&lt;c&gt;</td>' in text
    assert "text &amp; &lt;i&gt;" in text
    assert 'alt="a &#34;figure&#34; &lt;x&gt;"' in text
    assert 'width="400" height="300"' in text
    assert re.findall(r'<section id="(.*?)">', text) == ["a-b-c"]
    assert {path.suffix for path in (tmp_path / "report_figures").glob("one.*")} == {".png", ".svg", ".pdf"}
    pdf = (tmp_path / "report_figures" / "one.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert b"CreationDate" not in pdf
    assert '![a "figure" &lt;x>](report_figures/one.png)' in (tmp_path / "report.md").read_text()
    assert "Made" not in text  # without date or steps
    assert "Next" not in text
    assert slug("Ranking: xamarin, newest 12,000") == "ranking-xamarin-newest-12-000"


def test_tables_in_latex_are_replaced():
    text = "before\n% report: A & B\nstale\n% end\nafter % end\n"
    table = pd.DataFrame({"model_name": ["a & b", "c"], "f1": [0.25, 0.5], "p_value": [0.0002, 0.5]})
    filled = fill_tables(text, [Section("A & B", "", [table])], in_latex=True)
    assert filled.splitlines() == [
        *("before", "% report: A & B", r"\begin{tabular}{lrr}", r"\toprule"),
        *(r"model name & F1 & p value \\", r"\midrule", r"a \& b & 0.250 & $<$0.001 \\", r"c & 0.500 & 0.500 \\"),
        *(r"\bottomrule", r"\end{tabular}", "% end", "after % end"),
    ]
    assert fill_tables(filled, [Section("A & B", "", [table])], in_latex=True) == filled
    with pytest.raises(ValueError, match="the report has no section A & B"):
        fill_tables(text, [], in_latex=True)
    with pytest.raises(ValueError, match="write '% report: Runs' before it"):
        fill_tables("no place", [], in_latex=True)


def test_tables_in_markdown_are_replaced():
    text = "before\n<!-- report: A -->\nstale\n<!-- end -->\nbetween\n<!-- report: B --><!-- end -->\nafter\n"
    sections = [Section("A", "", [TABLE]), Section("B", "", [TABLE.head(1)])]
    filled = fill_tables(text, sections)
    assert "stale" not in filled
    assert filled.count("| model |") == 2
    assert [filled.splitlines()[0], filled.splitlines()[-1]] == ["before", "after"]
    assert fill_tables(filled, sections) == filled
    with pytest.raises(ValueError, match="the report has no section B; choose from A"):
        fill_tables(text, sections[:1])


def test_date_command_and_next_steps(tmp_path):
    steps = [("Try this:", "gedbd index run='a & b'"), ("Read on.", "")]
    date = datetime(2026, 11, 22, 7, 5, tzinfo=UTC)
    command = "gedbd report a b"
    page = write_report(tmp_path, "T", "sum", [], command=command, date=date, next_steps=steps).read_text()
    assert '<time datetime="2026-11-22T07:05:00+00:00">2026-11-22 07:05 UTC</time> by' in page
    assert "gedbd report a b</pre>" in page
    assert "<p>Try this:</p>\n<pre>gedbd index run=&#39;a &amp; b&#39;</pre>\n<p>Read on.</p>" in page
    text = (tmp_path / "report.md").read_text()
    assert "Written 2026-11-22 07:05 UTC by\n\n```\ngedbd report a b\n```\n" in text
    assert "Try this:\n\n```\ngedbd index run='a & b'\n```\n\nRead on.\n" in text


def test_rows_get_hidden_buttons_and_text_of_a_tracker_is_no_part_of_the_program(tmp_path):
    section = Section("Pairs", "text", [PAIRS], asks_verdicts=True)
    page = write_report(tmp_path, "T", "sum", [section], judging=JUDGING).read_text()
    marked = re.findall(r'<td class="verdict".*?</td>', page)
    assert [re.findall('<span class="state">(.*?)</span>', cell) for cell in marked] == [["no verdict"], ["duplicate"]]
    buttons = [
        '<button type="button" value="accept" hidden>duplicate</button>',
        '<button type="button" value="reject" hidden>not a duplicate</button>',
        '<button type="button" value="unclear" hidden>unclear</button>',
    ]
    assert [re.findall("<button.*?</button>", cell) for cell in marked] == [buttons] * 2
    assert 'data-report="3" data-suggested="1"' in marked[0]
    text = (tmp_path / "report.md").read_text()
    assert "| duplicate |" in text
    assert "<button" not in text
    scripts = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == page.count("</script>") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)
    assert f"script-src &#39;sha256-{digest}&#39;" in policy[1]
    assert "<b>" not in page
    page = write_report(tmp_path, "T", "sum", [section]).read_text()  # without verdicts there is no program
    assert "<script" not in page
    assert "<button" not in page
    assert '<td class="verdict" dir="auto">duplicate</td>' in page
