import gzip
import lzma
import re
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.readers.csv_file import read_table

TEXT = 'id,text\n1,"a ""b"", c\nd"\n\n2,\n'


def write(folder: Path, content: str | bytes, name: str = "bugs.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pack_zip(folder: Path, *names: str) -> Path:
    with zipfile.ZipFile(folder / "bugs.zip", "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return folder / "bugs.zip"


def test_records_are_rows_from_2_on_whatever_lines_they_span(tmp_path):
    table, warnings = read_table(write(tmp_path, TEXT))
    assert table["text"].to_dict() == {2: 'a "b", c\nd', 3: ""}
    assert warnings == ()


def test_values_that_look_like_numbers_or_nothing_stay_text(tmp_path):
    table, _ = read_table(write(tmp_path, "id,text\n007,NA\n1.50,null\n"))
    assert table.to_numpy().tolist() == [["007", "NA"], ["1.50", "null"]]


def test_packed_files_read_as_plain_ones(tmp_path):
    packed = [
        write(tmp_path, lzma.compress(TEXT.encode()), "bugs.csv.xz"),
        write(tmp_path, gzip.compress(TEXT.encode()), "bugs.csv.gz"),
        pack_zip(tmp_path, "deep/bugs.csv", "__MACOSX/._bugs.csv", "README"),
    ]
    plain, _ = read_table(write(tmp_path, TEXT))
    for path in packed:
        assert read_table(path)[0].equals(plain)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"not an archive", "bugs.csv.xz", "the archive is damaged .*; download or pack it again"),
        (b"not an archive", "bugs.zip", "the archive is damaged"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], "bugs.csv.gz", "the archive is damaged"),
        (None, "bugs.zip", "the archive holds 2 CSV files; it must hold exactly one"),
    ],
)
def test_a_damaged_archive_or_one_of_several_tables_is_refused(tmp_path, content, name, message):
    path = pack_zip(tmp_path, "a.csv", "b.csv") if content is None else write(tmp_path, content, name)
    with pytest.raises(ValueError, match=rf"{name}: {message}"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "header", "texts", "warnings"),
    [
        (b"\xef\xbb\xbfid,text\n1,a\n", "text", ["a"], []),
        (
            b"id,text\n1,caf\xc3\xa9 \xef\xbf\xbd\n2,caf\xe9\n3,\xff\xfe\n",
            "text",
            ["café \ufffd", "caf\ufffd", "\ufffd\ufffd"],
            ["rows of bugs.csv with bytes that are not UTF-8: 2, replaced by U+FFFD (first: row 3, column 'text')"],
        ),
        (
            b"id,r\xe9sum\xe9\n1,a\n",
            "résumé",
            ["a"],
            ["bugs.csv is not UTF-8 and is read as cp1252: if letters are wrong, set dataset.encoding="],
        ),
    ],
)
def test_marks_are_dropped_and_bytes_that_are_not_utf8_replaced(tmp_path, content, header, texts, warnings):
    table, told = read_table(write(tmp_path, content))
    assert table.columns.tolist() == ["id", header]
    assert table[header].tolist() == texts
    assert list(told) == warnings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "bugs.csv: the file is empty; it needs a header and one row per report"),
        ("id,text\n", "bugs.csv: there are no rows below the header; add one row per report"),
        ("id,text,id\n1,a,2\n", "bugs.csv, row 1: the column 'id' occurs twice; rename one of them"),
        (
            '[{"number": 1, "body": null}, {"number": 2, "body": null}]',
            "bugs.csv: looks like JSON, not CSV",
        ),
        ('id,text\n1,"a\nb"\n2,a,b\n', "bugs.csv, row 3: 3 fields under a header of 2; quote fields that contain"),
        ('id,text\n1,"a\n2,b\n', "bugs.csv, row 2: not readable as CSV (unexpected end of data); close every quoted"),
        ('id,text\n1,a\n2,"b"c\n', "bugs.csv, row 3: not readable as CSV (',' expected after '\"'); close"),
    ],
)
def test_a_table_that_cannot_be_read_says_where_and_what_to_do(tmp_path, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_table(write(tmp_path, content))


def test_tables_that_are_no_csv_are_read_or_named_for_what_they_are(tmp_path):
    frame = pd.DataFrame({"id": [1, 2], "at": [pd.Timestamp("2024-01-31"), None], "labels": [["a", "b"], []]})
    frame.to_parquet(tmp_path / "bugs.parquet")
    table, _ = read_table(tmp_path / "bugs.parquet")
    assert table.to_numpy().tolist() == [["1", "2024-01-31T00:00:00", "['a', 'b']"], ["2", "", "[]"]]
    for content, message in (
        (b"PAR1 and no more", "the table cannot be read"),
        (b"\xd0\xcf\x11\xe0 and more", "an Excel workbook of before 2007: save it as CSV"),
        (b"PK\x03\x04 and more", "an Excel workbook: save it as CSV, or install openpyxl|the table cannot be read"),
        (b"<html><table></table></html>", "a web page or an HTML table"),
    ):
        (tmp_path / "bugs.xls").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "bugs.xls")
