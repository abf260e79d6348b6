from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.readers.csv_export import read_csv

DEMO_COLUMNS = {
    "id": "Issue_id",
    "title": "Title",
    "description": "Description",
    "created_at": "Created_time",
    "component": "Component",
    "version": "Version",
    "priority": "Priority",
    "status": "Status",
    "resolution": "Resolution",
    "duplicate": "Duplicated_issue",
}
COLUMNS = {"id": "Key", "title": "Summary", "description": "Body", "created_at": "Filed", "duplicate": "Dup"}
HEADER = "Key,Summary,Body,Filed,Dup\n"
ROWS = (
    'Key{0}Summary{0}Body{0}Filed{0}Dup\nB{0}späte{0}"two{0}parts"{0}2024-02-01{0}A\nA{0}early{0}text{0}2024-01-01{0}\n'
)


def write(folder: Path, content: str | bytes, name: str = "tracker.csv") -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_demo_has_its_count_and_its_first_and_last_record():
    corpus = read_csv("demo", "pkg://gedbd.corpora/demo.csv", DEMO_COLUMNS)
    _, sizes = np.unique(corpus.group, return_counts=True)
    first, last = corpus.reports.iloc[0], corpus.reports.iloc[-1]
    assert len(corpus) == 425
    assert (sizes > 1).sum() == 107
    assert (sizes == 1).sum() == 145
    assert (first.id, first.component) == ("1001", "folders")
    assert first.title == "New Year's Eve messages are archived under the wrong year"
    assert first.created_at == pd.Timestamp("2022-01-12 09:02", tz="UTC")
    assert (last.id, last.component) == ("2688", "junk")
    assert last.title.startswith('"Report phishing" button')
    assert last.created_at == pd.Timestamp("2024-12-11 10:26", tz="UTC")
    assert corpus.reports["created_at"].is_monotonic_increasing
    assert corpus.warnings == ()


@pytest.mark.parametrize(
    ("content", "columns", "options", "message"),
    [
        (None, {}, {}, r"tracker.csv: no such file; set dataset.path= to an existing one"),
        (None, {}, {"url_template": "ftp://b.org/{issue_id}"}, r"dataset\.url_template=ftp"),  # before the file is read
        ("Key,Summary,Dup\n1,a,\n", {"title": None}, {}, "no column is named for title"),
        (
            "Nr,Text,When\n1,a,b\n",
            {},
            {},
            "for id, no column 'Summary' for title, .*; the columns are Nr, Text, When. Set dataset.columns.id",
        ),
        ("Key,Summary,Dup\n1,a,\n", {"titel": "x"}, {}, r"dataset.columns.titel: no such field"),
        (
            HEADER + '1,a,"two\nlines",2024-01-01,\n2,b,c,yesterday,\n',
            *({}, {}, r"tracker.csv, row 3, column 'Filed': unreadable date 'yesterday' .*: dataset.date_format"),
        ),
        ("Key Summary Body\n1 a b\n", {}, {}, "row 1: no comma, semicolon, tab or pipe .*'Key Summary Body': set"),
        ("a;b\tc\n1;2\t3\n", {}, {}, r"no comma, semicolon, tab or pipe separates the columns of the header 'a;b\\tc'"),
        (ROWS.format(",").encode("utf-16-le"), {}, {}, "zero bytes.: try dataset.encoding=utf-16-le"),
        (ROWS, {}, {"encoding": "utf-17"}, "dataset.encoding=utf-17 is unknown: utf-8, utf-16, cp1252"),
        ("Key,Summary\n1,a\n", {}, {"encoding": "utf-16"}, "not readable as utf-16"),
        (ROWS, {}, {"separator": "dots"}, "dataset.separator=dots must be one character or comma, semi"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_or_option(tmp_path, content, columns, options, message):
    path = str(tmp_path / "tracker.csv") if content is None else write(tmp_path, content)
    with pytest.raises(ValueError, match=message):
        read_csv(None, path, COLUMNS | columns, **options)


@pytest.mark.parametrize(
    ("content", "columns", "warnings"),
    [
        (
            "Key,Summary\n1,a\n2,b\n",
            {"id": "Key", "title": "Summary"},
            ["no report has a date", "no report is marked as a duplicate, so every report is a group of its own"],
        ),
        (
            HEADER + "1,,text,2024-01-01,2\n2,title, ,2024-01-02,\n3,,,2024-01-03,\n",
            COLUMNS,
            [
                "reports with an empty title: 2, kept (first: row 2)",
                "reports with an empty description: 2, kept (first: row 3)",
                "reports with neither title nor description: 1, kept (first: row 4)",
            ],
        ),
        (
            HEADER + f"1,a,short,2024-01-01,2\n2,b,{'x' * 1_000_000},2024-01-02,\n",
            COLUMNS,
            ["reports with a description of more than 100,000 characters: 1, kept (first: row 3)"],
        ),
        (
            HEADER
            + "".join(f"{n},It crashes as soon as I paste,Crash,2024-01-01,1\n" for n in range(2, 22))
            + "1,a,b,2023-01-01,\n",
            COLUMNS,
            ["most titles (column 'Summary') are longer than descriptions ('Body'): are the two columns swapped?"],
        ),
    ],
    ids=["duplicates", "empty", "long", "swapped"],
)
def test_what_is_missing_or_odd_is_kept_and_counted(tmp_path, content, columns, warnings):
    corpus = read_csv(None, write(tmp_path, content), columns)
    assert len(corpus) == content.count("\n") - 1
    assert all(told.startswith(warning) for told, warning in zip(corpus.warnings, warnings, strict=False))
    assert len(content) < 1_000_000 or corpus.reports["description"].str.len().max() == 1_000_000


def test_images_lie_beside_the_file_or_where_the_option_says(tmp_path):
    path = write(tmp_path, "Key,Summary,Files\n1,a,one.png;two.png\n2,b,\n")
    columns = {"id": "Key", "title": "Summary", "attachments": "Files"}
    corpus = read_csv(None, path, columns)
    assert corpus.reports["attachments"].tolist() == ["one.png;two.png", ""]
    assert corpus.image_dir == tmp_path
    assert read_csv(None, path, columns, image_dir="~/shots").image_dir == Path("~/shots").expanduser()


@pytest.mark.parametrize(("name", "separator"), [("semicolon", ";"), ("tab", "\t"), ("pipe", "|")])
def test_a_separator_is_recognised_and_told(tmp_path, name, separator):
    path = write(tmp_path, ROWS.format(separator))
    corpus = read_csv(None, path, COLUMNS)
    assert corpus.reports["title"].tolist() == ["early", "späte"]
    assert corpus.reports["description"].tolist() == ["text", f"two{separator}parts"]
    assert corpus.warnings == (f"columns of tracker.csv are separated by {name}",)
    for given in (name, separator):
        told = read_csv(None, path, COLUMNS, separator=given)
        assert told.warnings == ()
        assert told.reports.equals(corpus.reports)


def test_a_separator_is_the_one_under_which_the_columns_are_found(tmp_path):
    content = 'Key;"Summary, short | long";Body;Filed;Dup\nA;early;a, b | c;2024-01-01;\n'
    named = COLUMNS | {"title": "Summary, short | long"}
    for text, options in ((content, {}), (content.replace(";", "~"), {"separator": "~"})):
        assert read_csv(None, write(tmp_path, text), named, **options).reports["description"].tolist() == ["a, b | c"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_an_encoding_is_recognised_by_its_byte_order_mark(tmp_path, encoding):
    corpus = read_csv(None, write(tmp_path, ROWS.format("\t").encode(encoding)), COLUMNS)
    assert corpus.reports["title"].tolist() == ["early", "späte"]
    told = () if encoding == "utf-8-sig" else (f"tracker.csv is read as {encoding}, according to its byte order mark",)
    assert corpus.warnings == (*told, "columns of tracker.csv are separated by tab")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "utf-16-be"])
def test_an_encoding_without_a_mark_is_read_on_request(tmp_path, encoding):
    corpus = read_csv(None, write(tmp_path, ROWS.format(",").encode(encoding)), COLUMNS, encoding=encoding)
    assert corpus.reports["title"].tolist() == ["early", "späte"]
    assert corpus.warnings == ()


@pytest.mark.parametrize(
    ("title", "encoding"),
    [("späte", "cp1252"), ("zażółć gęślą jaźń", "cp1250"), ("Ошибка при сохранении файла", "cp1251")],
)
def test_an_older_encoding_is_recognised_and_told(tmp_path, title, encoding):
    corpus = read_csv(None, write(tmp_path, ROWS.format(",").replace("späte", title).encode(encoding)), COLUMNS)
    assert corpus.reports["title"].tolist() == ["early", title]
    assert f"is read as {encoding}" in corpus.warnings[0]
    assert "dataset.encoding=" in corpus.warnings[0]


@pytest.mark.parametrize(
    ("content", "resolved", "made", "warnings"),
    [
        (
            "Key,Summary,Dup,Words,Done\n1,a,,x;Y,\n2,b,1,,2024-01-03 10:00:00\n3,c,1;2,z,2024-01-04\n4,d,,,\n",
            [None, "2024-01-03 10:00", "2024-01-04", None],
            ["2024-01-03 10:00", "2024-01-04", "2024-01-04"],
            [],
        ),
        ("Key,Summary,Dup\n1,a,\n2,b,1\n", None, [None], []),
        (
            "Key,Summary,Dup,Done\n1,a,,\n2,b,1,soon\n",
            None,
            [None],
            ["unreadable resolution dates: 1, treated as missing (first: row 3)"],
        ),
        (  # the second report has a date without a time, of the day on which it was created
            "Key,Summary,Filed,Dup,Done\n1,a,2024-01-05 09:00,,2024-01-04 23:59\n2,b,2024-01-06 09:00,,2024-01-06\n"
            "3,c,2024-01-07,,\n",
            ["2024-01-04 23:59", "2024-01-06", None],
            [],
            ["reports resolved before they were created: 1, kept (first: row 2)"],
        ),
    ],
)
def test_columns_of_labels_and_resolution(tmp_path, content, resolved, made, warnings):
    corpus = read_csv(None, write(tmp_path, content), COLUMNS | {"labels": "Words", "resolved_at": "Done"})
    assert corpus.reports["labels"].tolist()[:3] == (["x;Y", "", "z"] if "Words" in content else [""] * len(corpus))
    dates = corpus.reports["resolved_at"].tolist() if "resolved_at" in corpus.reports else None
    assert dates == (resolved and [pd.Timestamp(when, tz="UTC") if when else pd.NaT for when in resolved])
    assert corpus.links.table["made_at"].tolist() == [pd.Timestamp(when, tz="UTC") if when else pd.NaT for when in made]
    assert [warning for warning in corpus.warnings if "labels" in warning or "resol" in warning] == warnings
