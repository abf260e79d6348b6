"""Tables and lines in terminals of several widths: no word is cut."""

import io
import textwrap

import pandas as pd
import pytest
from rich.console import Console

from gedbd.io.command_output import print_records, print_table
from gedbd.io.console import cut_cells, open_console, print_line, print_path, wrap_cells

METRICS = pd.DataFrame(
    {
        "method": ["text + graph", "always duplicate"],
        "threshold": [0.35, 0.0],
        "average_precision": [0.8434, 0.1667],
        "f1 95%": ["0.70 to 0.86", "0.27 to 0.30"],
    }
)
TITLES = pd.DataFrame(
    {"id": ["1479"], "title": ["RecurrenceExpander::advanceToTheNextOccurrence hangs in the month view"], "place": [1]}
)


def printed(show, *values, width):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    show(console, *values)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_that_fits_is_a_table():
    lines = printed(print_table, METRICS, "demo, test", width=80)
    assert lines[1] == "demo, test"
    assert lines[2:4] == [" " * 29 + "average", "method           threshold precision       f1 95%"]
    assert lines[5] == "text + graph         0.350     0.843 0.70 to 0.86"


def test_rows_and_columns_change_places_where_that_fits():
    lines = printed(print_table, METRICS, "", width=45)
    assert lines[:2] == ["                                     always", "method            text + graph    duplicate"]
    assert lines[3:] == [
        "threshold                0.350        0.000",
        "average precision        0.843        0.167",
        "f1 95%            0.70 to 0.86 0.27 to 0.30",
    ]


def test_records_where_a_table_fits_in_no_way():
    lines = printed(print_table, pd.concat([METRICS] * 2), "", width=30)
    assert lines[:6] == [
        "  method             text +",
        "                     graph",
        "  threshold          0.350",
        "  average precision  0.843",
        "  f1 95%             0.70 to",
        "                     0.86",
    ]
    assert lines.count("") == 3


def test_control_characters_are_not_printed():
    hostile = pd.DataFrame({"title": ["\x1b[2Jgone\nline"]})
    assert printed(print_table, hostile, "", width=80)[2] == " [2Jgone line"
    assert printed(print_records, hostile.map(lambda text: "plain"), width=80) == ["  title  plain"]


def test_lines_break_between_words_and_paths_stand_alone():
    sentence = "Nothing is suggested unasked: [no] threshold was found in /a/very/long/folder/name"
    assert printed(print_line, sentence, width=30) == [
        "Nothing is suggested unasked:",
        "[no] threshold was found in",
        "/a/very/long/folder/name",
    ]
    assert printed(print_path, "page:", "/a/very/long/folder/name/report.html", width=30) == [
        "page:",
        "  /a/very/long/folder/name/report.html",
    ]
    assert printed(print_path, "page:", "report.html", width=30) == ["page: report.html"]


def test_wide_characters_take_two_columns():
    assert wrap_cells("保存文件时，程序崩溃。", 10) == ["保存文件", "时，程序崩", "溃。"]  # no line begins with a stop
    assert wrap_cells("「保存」 Button1 打开", 9) == ["「保存」", "Button1", "打开"]
    assert wrap_cells("Größe – die Länge", 11) == ["Größe – die", "Länge"]
    assert wrap_cells("첨부 파일을 열 수 없음", 11) == ["첨부 파일을", "열 수 없음"]
    assert wrap_cells("", 5) == []
    assert [cut_cells("a打开文件", width) for width in (1, 2, 3, 9, 10)] == ["a", "a", "a打", "a打开文件", "a打开文件"]
    assert printed(print_records, pd.DataFrame({"title": ["打开文件打开"]}), width=17) == [
        "  title  打开文件",
        " " * 9 + "打开",
    ]


@pytest.mark.parametrize("width", range(1, 60, 7))
def test_narrow_text_breaks_as_textwrap_breaks_it(width):
    text = "Ein Satz – mit  Lücken, „Zitat“ und/langen-Wörtern: /ein/langer/Pfad  "
    expected = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    assert wrap_cells(text, width) == expected


def test_output_to_a_pipe_has_no_line_breaks_of_its_own(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_line(open_console(), "word " * 100)
    print_table(open_console(), TITLES, "")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    monkeypatch.setenv("COLUMNS", "40")
    assert open_console().width == 40
