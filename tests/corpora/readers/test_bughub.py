import lzma
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bughub import read_bughub, read_labels, read_parts
from gedbd.corpora.statistics import describe_corpus

HEADER = "Issue_id,Priority,Component,Duplicated_issue,Title,Description,Status,Resolution,Version,Created_time,X\n"
REPORTS = HEADER + "".join(
    f"{issue_id},P1,ui,{duplicate},title {issue_id},text,NEW,,1,2024-01-0{issue_id},\n"
    for issue_id, duplicate in [(1, ""), (2, "1.0"), (3, ""), (4, "NULL"), (5, "5"), (6, "")]
)
TRAIN = "Issue_id,Duplicate\n1,2\n2,1\n3,4\n4,3\n"
TEST = "Issue_id,Duplicate\n5,3;4\n6,NULL\n"
SOURCE = {"folder": "Small", "file": "small_bugs.zip", "base_url": "https://example.org/hub"}


def lay_out(data_dir: Path, **files: str) -> Path:
    (data_dir / "Small").mkdir()
    for stem, content in files.items():
        (data_dir / "Small" / f"{stem}.csv").write_text(content)
    return data_dir


def read(data_dir: Path, **options: object) -> Corpus:
    return read_bughub("small", str(data_dir), **SOURCE, **options)


def ids(corpus: Corpus) -> list[str]:
    return corpus.reports["id"].tolist()


def test_without_label_files_the_reports_own_links_count(tmp_path):
    corpus = read(lay_out(tmp_path, small_bugs=REPORTS))
    assert corpus.group.tolist() == [0, 0, 2, 3, 4, 5]
    assert corpus.reports.iloc[1].title == "title 2"
    assert corpus.warnings == (
        "duplicate links from a report to itself: 1, dropped; the reports are kept (first: report 5 names 5, row 6)",
    )


def test_the_dates_of_resolution_are_read_with_the_reports(tmp_path):
    reports = REPORTS.replace(",X\n", ",Resolved_time\n").replace("2024-01-02,\n", "2024-01-02,2024-03-01\n")
    corpus = read(lay_out(tmp_path, small_bugs=reports.replace("2024-01-03,\n", "2024-01-03,soon\n")))
    assert corpus.reports["resolved_at"].dropna().to_dict() == {1: pd.Timestamp("2024-03-01", tz="UTC")}
    assert "unreadable resolution dates: 1, treated as missing (first: row 4)" in corpus.warnings
    assert corpus.links.table["made_at"].isna().all()


def test_links_of_label_files_are_added_and_a_subset_keeps_the_reports_that_one_lists(tmp_path):
    data_dir = lay_out(tmp_path, small_bugs=REPORTS, train=TRAIN, test=TEST)
    corpus = read(data_dir)
    assert corpus.group.tolist() == [0, 0, 2, 2, 2, 5]
    assert not any("cycles" in warning for warning in corpus.warnings)
    train, test = read(data_dir, subset="train"), read(data_dir, subset="test")
    assert (ids(train), train.group.tolist()) == (["1", "2", "3", "4"], [0, 0, 2, 2])
    assert (ids(test), test.group.tolist()) == (["5", "6"], [0, 1])
    assert test.warnings[0].startswith("duplicate links to a report that is not in the file: 2, dropped")


def test_a_subset_without_its_label_file_says_what_to_do(tmp_path):
    data_dir = lay_out(tmp_path, small_bugs=REPORTS)
    with pytest.raises(ValueError, match=r"train.csv: no such file; .* Put it there, or set dataset.subset=all"):
        read(data_dir, subset="train")
    with pytest.raises(ValueError, match=r"dataset.subset=half: no such subset; choose all, train or test"):
        read(data_dir, subset="half")


@pytest.mark.parametrize("name", ["small_bugs.csv.xz", "small_bugs.xz", "reports.csv.xz"])
def test_the_reports_may_be_packed_or_named_reports(tmp_path, name):
    data_dir = lay_out(tmp_path)
    (data_dir / "Small" / name).write_bytes(lzma.compress(REPORTS.encode()))
    assert len(read(data_dir)) == 6


def test_a_missing_file_names_its_address_and_the_command(tmp_path):
    message = (
        "Small/small_bugs.zip: no such file; fetch https://example.org/hub/Small/small_bugs.zip with: "
        f"gedbd download dataset=small data_dir={tmp_path}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        read(lay_out(tmp_path))


def test_another_number_of_reports_is_remarked_on(tmp_path):
    data_dir = lay_out(tmp_path, small_bugs=REPORTS)
    assert read(data_dir, rows={"reports": 1_000}).warnings[0] == (
        "reports in small_bugs.csv: 6, but 1,000 were published; figures will differ"
    )
    assert not any("published" in warning for warning in read(data_dir, rows={"reports": 6}).warnings)


def test_labels_alone_make_groups_and_need_their_columns(tmp_path):
    data_dir = lay_out(tmp_path, train=TRAIN)
    corpus = read_labels("small", str(data_dir), "Small", "train")
    assert corpus.name == "small train"
    assert corpus.group.tolist() == [0, 0, 2, 2]
    (data_dir / "Small" / "train.csv").write_text("Id,Duplicate\n1,2\n")
    with pytest.raises(ValueError, match=r"train.csv, row 1: no column 'Issue_id'; the columns are Id, Duplicate"):
        read_labels("small", str(data_dir), "Small", "train")


def test_parts_are_the_reports_and_the_label_files(tmp_path):
    data_dir = lay_out(tmp_path, train=TRAIN, test=TEST)
    parts = read_parts("small", str(data_dir), **SOURCE)
    assert [part.name for part in parts] == ["small train", "small test"]
    assert all(part.warnings[0].startswith("small_bugs.zip is not in") for part in parts)
    (data_dir / "Small" / "reports.csv").write_text(REPORTS)
    parts = read_parts("small", str(data_dir), **SOURCE)
    assert [part.name for part in parts] == ["small", "small train", "small test"]


@pytest.mark.slow
@pytest.mark.skipif(
    "GEDBD_DATA" not in os.environ,
    reason="set GEDBD_DATA to a folder with bughub_labels/EclipsePlatform and bughub_labels/Thunderbird",
)
@pytest.mark.parametrize(
    ("folder", "numbers"),
    [
        ("EclipsePlatform", (68_124, 50_606, 17_518, 6_282, 26_617)),
        ("Thunderbird", (26_040, 15_994, 10_046, 2_772, 33_162)),
    ],
)
def test_the_published_train_files_have_the_published_numbers(folder, numbers):
    found = describe_corpus(read_labels("x", f"{os.environ['GEDBD_DATA']}/bughub_labels", folder, "train"))
    metrics = ("reports", "without duplicate", "in a group", "groups", "pairs")
    assert tuple(found[metric] for metric in metrics) == numbers
