import re
from datetime import UTC, datetime

import pandas as pd
import pytest
from matplotlib.figure import Figure

from gedbd.evaluation.report.report_page import fill_tables, markdown, slug, write_report
from gedbd.evaluation.report.section import Section, show

TABLE = pd.DataFrame(
    {
        "model": ["a|b", "<c>"],
        "seeds": [1, 3],
        "rr@10": [0.5, 0.75],
        "rr@10_low": [0.4, 0.7],
        "rr@10_high": [0.6, 0.8],
        "threshold": [0.9, 0.1],
    }
)


def line() -> Figure:
    figure = Figure()
    figure.subplots().plot([0, 1])
    return figure


def test_intervals_stand_behind_their_value_and_the_best_is_marked():
    shown = show(TABLE)
    assert shown.header == ["model", "seeds", "RR@10", "threshold"]
    assert shown.numeric == [False, True, True, True]
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["a|b", "1", "0.500 [0.400, 0.600]", "0.900"],
        ["<c>", "3", "0.750 [0.700, 0.800]", "0.100"],
    ]
    assert [[cell.best for cell in row] for row in shown.rows] == [[False] * 4, [False, False, True, False]]


def test_a_single_row_wins_nothing():
    assert not any(cell.best for row in show(TABLE.head(1)).rows for cell in row)


def test_markdown_table():
    assert markdown(show(TABLE)) == [
        "| model | seeds | RR@10 | threshold |",
        "| --- | ---: | ---: | ---: |",
        "| a\\|b | 1 | 0.500 [0.400, 0.600] | 0.900 |",
        "| &lt;c> | 3 | **0.750 [0.700, 0.800]** | 0.100 |",
    ]


LINKED = pd.DataFrame(
    {
        "report": ["A|1", "<b>", "3", "4"],
        "url of report": ["https://b.org/A|1?x=(1)&y=2", "javascript:alert(1)", "", None],
        "url of nothing": ["https://c.org", "", "", ""],
    }
)


def test_ids_with_an_address_are_links():
    shown = show(LINKED)
    assert shown.header == ["report", "url of nothing"]
    assert [row[0].url for row in shown.rows] == ["https://b.org/A|1?x=(1)&y=2", "", "", ""]
    assert markdown(shown)[2:4] == [
        "| [A\\|1](https://b.org/A%7C1?x=%281%29&y=2) | `https://c.org` |",
        "| &lt;b> |  |",
    ]


def test_links_of_the_page_are_escaped_and_open_in_a_tab_of_their_own(tmp_path):
    text = write_report(tmp_path, "T", "sum", [Section("A", "text", [LINKED])]).read_text()
    opened = 'target="_blank" rel="noopener noreferrer"'
    assert f'<td dir="auto"><a href="https://b.org/A|1?x=(1)&amp;y=2" {opened}>A|1</a></td>' in text
    assert '<td dir="auto">&lt;b&gt;</td>' in text
    assert "javascript" not in text


def test_page_escapes_what_reports_say(tmp_path):
    section = Section("A <b> & c", "text & <i>", [TABLE], [("one", 'a "figure" <x>', line())])
    text = write_report(tmp_path, "T <1>", "sum", [section]).read_text()
    assert "<title>T &lt;1&gt;</title>" in text
    assert '<td dir="auto">&lt;c&gt;</td>' in text
    assert "text &amp; &lt;i&gt;" in text
    assert 'alt="a &#34;figure&#34; &lt;x&gt;"' in text
    assert re.findall(r'<section id="(.*?)">', text) == ["a-b-c"]
    assert (tmp_path / "report_figures" / "one.png").is_file()
    assert '![a "figure" &lt;x>](report_figures/one.png)' in (tmp_path / "report.md").read_text()


def test_tables_in_markdown_are_replaced():
    text = "before\n<!-- report: A -->\nstale\n<!-- end -->\nbetween\n<!-- report: B --><!-- end -->\nafter\n"
    sections = [Section("A", "", [TABLE]), Section("B", "", [TABLE.head(1)])]
    filled = fill_tables(text, sections)
    assert "stale" not in filled
    assert filled.count("| model |") == 2
    assert [filled.splitlines()[0], filled.splitlines()[-1]] == ["before", "after"]
    assert fill_tables(filled, sections) == filled


def test_a_table_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="the report has no section B; choose from A"):
        fill_tables("<!-- report: B --><!-- end -->", [Section("A", "", [])])


def test_slugs():
    assert slug("Ranking: xamarin, newest 12,000") == "ranking-xamarin-newest-12-000"


def test_values_of_options_are_shown_as_typed_and_zero_without_a_sign():
    shown = show(pd.DataFrame({"graph.pca_dim": [5.0, None], "difference": [-0.0001, 0.25]}))
    assert shown.header == ["graph.pca_dim", "difference"]
    assert [[cell.text for cell in row] for row in shown.rows] == [["5", "0.000"], ["", "0.250"]]


def test_long_texts_get_wide_columns():
    assert show(pd.DataFrame({"a": ["x"], "b": ["x" * 40], "c": [1]})).kinds == ["", "long", "number"]


def test_empty_tables_are_left_out_and_named(tmp_path):
    empty = TABLE.head(0)
    sections = [
        Section("Empty", "gone", [empty]),
        Section("Half", "stays", [empty, TABLE]),
        Section("Words", "stays too"),
        Section("Drawn", "stays as well", [empty], [("one", "a figure", line())]),
    ]
    page = write_report(tmp_path, "T", "sum", sections).read_text()
    assert re.findall("<h2>(.*?)</h2>", page) == ["Half", "Words", "Drawn"]
    assert page.count("<table>") == 1
    assert "gone" not in page
    for text in (page, (tmp_path / "report.md").read_text()):
        assert "Sections without data: Empty." in text


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


def test_a_page_without_date_or_steps_mentions_none(tmp_path):
    page = write_report(tmp_path, "T", "sum", []).read_text()
    assert "Made" not in page
    assert "Next" not in page


def test_figures_have_a_size_before_they_are_loaded(tmp_path):
    figure = Figure(figsize=(4, 3))
    page = write_report(tmp_path, "T", "sum", [Section("A", "", [], [("one", "a figure", figure)])]).read_text()
    assert 'width="400" height="300"' in page
