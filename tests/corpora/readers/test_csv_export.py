import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS
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


def test_a_column_map_reads_any_export(tmp_path):
    content = "Key,Summary,Body,Filed,Dup,Other\nB,late,text,2024-02-01,A,x\nA,early,text,2024-01-01,,y\n"
    corpus = read_csv(None, write(tmp_path, content), COLUMNS)
    assert corpus.name == "tracker"
    assert corpus.reports["title"].tolist() == ["early", "late"]
    assert corpus.group.tolist() == [0, 0]
    assert tuple(corpus.reports.columns) == DOCUMENT_FIELDS
    assert corpus.reports["version"].tolist() == ["", ""]
    assert corpus.warnings == ()


@pytest.mark.parametrize(
    ("file", "name"),
    [("xamarin/reports.csv", "xamarin"), ("jira/Bugs.csv", "jira"), ("exports/kde.2024.csv", "kde")],
)
def test_the_name_comes_from_the_file_or_its_folder(tmp_path, file, name):
    assert read_csv(None, write(tmp_path, "Key,Summary,Dup\n1,a,\n", file), COLUMNS).name == name


def test_a_missing_path_names_the_option(tmp_path):
    with pytest.raises(ValueError, match=r"none.csv: no such file; set dataset.path= to an existing one"):
        read_csv(None, str(tmp_path / "none.csv"), COLUMNS)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Id,Summary,Dup", r"tracker.csv, row 1: no column 'Key' for id; the columns are Id, Summary, Dup. Set"),
        ("Key,Name,Dup", r"row 1: no column 'Summary' for title; the columns are .*. Set dataset.columns.title to one"),
        ("Key,Summary,X", r"no column 'Dup' for duplicate; .* or null if the tracker records no duplicates"),
    ],
)
def test_a_missing_column_is_named_with_those_there_are(tmp_path, header, message):
    with pytest.raises(ValueError, match=message):
        read_csv(None, write(tmp_path, f"{header}\n1,a,\n"), COLUMNS)


def test_a_title_is_needed_and_a_field_must_exist(tmp_path):
    path = write(tmp_path, "Key,Summary,Dup\n1,a,\n")
    with pytest.raises(ValueError, match="no column is named for title"):
        read_csv(None, path, {"id": "Key"})
    with pytest.raises(ValueError, match=r"dataset.columns.titel: no such field; the fields are id, title"):
        read_csv(None, path, {"id": "Key", "titel": "Summary"})


def test_optional_columns_that_are_absent_are_left_empty_and_remarked_on(tmp_path):
    corpus = read_csv(None, write(tmp_path, "Key,Summary,Dup\n1,a,2\n2,b,\n"), COLUMNS)
    assert corpus.reports["description"].tolist() == ["", ""]
    assert corpus.warnings[0] == "columns not in tracker.csv, left empty: Body, Filed"


def test_images_lie_beside_the_file_or_where_the_option_says(tmp_path):
    path = write(tmp_path, "Key,Summary,Files\n1,a,one.png;two.png\n2,b,\n")
    columns = {"id": "Key", "title": "Summary", "attachments": "Files"}
    corpus = read_csv(None, path, columns)
    assert corpus.reports["attachments"].tolist() == ["one.png;two.png", ""]
    assert corpus.image_dir == tmp_path
    assert read_csv(None, path, columns, image_dir="~/shots").image_dir == Path("~/shots").expanduser()


def test_addresses_of_a_column_and_of_a_template(tmp_path):
    path = write(tmp_path, "Key,Summary,Link\n1,a,https://b.org/1\n2,b,javascript:alert(1)\n3,c,\n")
    columns = {"id": "Key", "title": "Summary", "url": "Link"}
    corpus = read_csv(None, path, columns)
    assert corpus.reports["url"].tolist() == ["https://b.org/1", "", ""]
    warning = "addresses of reports that are not http or https: 1, dropped; the reports are kept (first: row 3)"
    assert warning in corpus.warnings
    filled = read_csv(None, path, columns, url_template="https://c.org/{issue_id}").reports["url"]
    assert filled.tolist() == ["https://b.org/1", "https://c.org/2", "https://c.org/3"]
    without = read_csv(None, path, columns | {"url": "Url"})
    assert without.reports["url"].tolist() == ["", "", ""]
    assert any(warning.startswith("columns not in tracker.csv, left empty: Url") for warning in without.warnings)


def test_a_bad_template_is_refused_before_the_file_is_read(tmp_path):
    with pytest.raises(ValueError, match=r"dataset\.url_template=ftp"):
        read_csv(None, str(tmp_path / "none.csv"), COLUMNS, url_template="ftp://b.org/{issue_id}")


def test_a_tracker_without_duplicates_maps_them_to_null(tmp_path):
    corpus = read_csv(None, write(tmp_path, "Key,Summary\n1,a\n2,b\n"), {"id": "Key", "title": "Summary"})
    assert corpus.group.tolist() == [0, 1]
    assert "no report is marked as a duplicate, so every report is a group of its own" in corpus.warnings


def test_an_unreadable_date_names_file_row_column_and_value(tmp_path):
    path = write(tmp_path, 'Key,Summary,Body,Filed,Dup\n1,a,"two\nlines",2024-01-01,\n2,b,c,yesterday,\n')
    message = r"tracker.csv, row 3, column 'Filed': unreadable date 'yesterday' .* other formats: dataset.date_format"
    with pytest.raises(ValueError, match=message):
        read_csv(None, path, COLUMNS)


def test_empty_texts_are_kept_and_counted(tmp_path):
    rows = "1,,text,2024-01-01,2\n2,title, ,2024-01-02,\n3,,,2024-01-03,\n"
    corpus = read_csv(None, write(tmp_path, f"Key,Summary,Body,Filed,Dup\n{rows}"), COLUMNS)
    assert len(corpus) == 3
    assert corpus.warnings == (
        "reports with an empty title: 2, kept (first: row 2)",
        "reports with an empty description: 2, kept (first: row 3)",
        "reports with neither title nor description: 1, kept (first: row 4)",
    )


def test_a_description_of_a_megabyte_is_kept_whole_and_remarked_on(tmp_path):
    rows = f"1,a,short,2024-01-01,2\n2,b,{'x' * 1_000_000},2024-01-02,\n"
    corpus = read_csv(None, write(tmp_path, f"Key,Summary,Body,Filed,Dup\n{rows}"), COLUMNS)
    assert corpus.reports["description"].str.len().max() == 1_000_000
    assert corpus.warnings == ("reports with a description of more than 100,000 characters: 1, kept (first: row 3)",)


def test_bytes_that_are_not_utf8_reach_the_warnings(tmp_path):
    rows = b"1,caf\xe9,text,2024-01-01,2\n2,b,c,2024-01-02,\n"
    corpus = read_csv(None, write(tmp_path, b"\xef\xbb\xbfKey,Summary,Body,Filed,Dup\n" + rows), COLUMNS)
    assert corpus.reports["title"].tolist() == ["caf\ufffd", "b"]
    assert corpus.warnings[0].endswith("(first: row 2, column 'Summary')")


@pytest.mark.slow
@pytest.mark.skipif("GEDBD_DATA" not in os.environ, reason="set GEDBD_DATA to a folder with xamarin/reports.csv.xz")
def test_a_real_tracker_has_its_count_and_its_first_and_last_record():
    corpus = read_csv(None, f"{os.environ['GEDBD_DATA']}/xamarin/reports.csv.xz", DEMO_COLUMNS)
    _, sizes = np.unique(corpus.group, return_counts=True)
    assert (corpus.name, len(corpus)) == ("xamarin", 36_387)
    assert (int((sizes > 1).sum()), int(corpus.relevance.in_group.sum())) == (1_865, 4_664)
    assert corpus.reports["id"].iloc[0] == "1"
    assert corpus.reports["created_at"].iloc[0] == pd.Timestamp("2011-07-14 06:08", tz="UTC")
    assert corpus.reports["created_at"].iloc[-1].year == 2018


ROWS = (
    'Key{0}Summary{0}Body{0}Filed{0}Dup\nB{0}späte{0}"two{0}parts"{0}2024-02-01{0}A\nA{0}early{0}text{0}2024-01-01{0}\n'
)


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
    assert read_csv(None, write(tmp_path, content), named).reports["description"].tolist() == ["a, b | c"]
    other = content.replace(";", "~")
    found = read_csv(None, write(tmp_path, other), named, separator="~")
    assert found.reports["description"].tolist() == ["a, b | c"]
    with pytest.raises(ValueError, match=r"no column 'Key' for id; the columns are Nr, Text, When"):
        read_csv(None, write(tmp_path, "Nr;Text;When\n1;a;b\n"), COLUMNS)


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


def test_bytes_of_an_older_encoding_are_told_with_the_option(tmp_path):
    corpus = read_csv(None, write(tmp_path, ROWS.format(",").encode("cp1252")), COLUMNS)
    assert corpus.reports["title"].tolist() == ["early", "sp�te"]
    assert corpus.warnings[1] == "if tracker.csv has an older encoding, set it, for example dataset.encoding=cp1252"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"Key Summary Body\n1 a b\n", {}, "row 1: no comma, semicolon, tab or pipe .* header 'Key Summary Body': set"),
        (b"a;b\tc\n1;2\t3\n", {}, r"no comma, semicolon, tab or pipe separates the columns of the header 'a;b\\tc'"),
        (ROWS.format(",").encode("utf-16-le"), {}, r"zero bytes.: try dataset.encoding=utf-16-le"),
        (b"Key,Summary\n1,a\n", {"encoding": "utf-17"}, "dataset.encoding=utf-17 is unknown: utf-8, utf-16, cp1252"),
        (b"Key,Summary\n1,a\n", {"encoding": "utf-16"}, "not readable as utf-16"),
        (b"Key,Summary\n1,a\n", {"separator": "dots"}, "dataset.separator=dots must be one character or comma, semi"),
        (b"Key;Summary\n1;a;b\n", {}, "row 2: 3 fields under a header of 2; quote fields that contain semicolons"),
    ],
)
def test_what_cannot_be_recognised_names_the_option(tmp_path, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_csv(None, write(tmp_path, content), COLUMNS, **options)


def test_a_packed_file_is_recognised_too(tmp_path):
    path = write(tmp_path, gzip.compress(ROWS.format(";").encode("utf-16")), "tracker.csv.gz")
    assert read_csv(None, path, COLUMNS).reports["title"].tolist() == ["early", "späte"]
