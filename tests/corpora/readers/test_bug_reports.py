import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus, keep_last
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, DOCUMENT_FIELDS, build_corpus
from gedbd.corpora.readers.duplicate_cells import split_links
from gedbd.corpora.relevance import Links

COLUMNS = {field: field.capitalize() for field in (*BUG_FIELDS, "duplicate")}


def build(*reports: tuple[str, str, str], **options: object) -> Corpus:
    """Reports as (id, date, duplicates)."""
    table = pd.DataFrame("text", index=range(2, 2 + len(reports)), columns=[*BUG_FIELDS, "duplicate"], dtype=str)
    for position, field in enumerate(("id", "created_at", "duplicate")):
        table[field] = pd.Series([report[position] for report in reports], index=table.index, dtype=str)
    table["url"] = ""
    links = split_links(table["id"], table["duplicate"])
    return build_corpus("small", table, links, "small.csv", COLUMNS, **options)


def named_by(links: Links) -> list[list]:
    return links.table[["query", "document", "source"]].to_numpy().tolist()


def ids(corpus: Corpus) -> list[str]:
    return corpus.reports["id"].tolist()


def test_rows_are_in_chronological_order_and_groups_have_the_number_of_their_first_report():
    corpus = build(("4", "2024-01-04", "2"), ("1", "2024-01-01", ""), ("3", "2024-01-03", "4"), ("2", "2024-01-02", ""))
    assert ids(corpus) == ["1", "2", "3", "4"]
    assert corpus.group.tolist() == [0, 1, 1, 1]
    assert corpus.relevance.in_group.tolist() == [False, True, True, True]
    assert corpus.reports.index.tolist() == [0, 1, 2, 3]
    assert tuple(corpus.reports.columns) == DOCUMENT_FIELDS
    assert corpus.group.dtype == np.int64
    assert corpus.warnings == ()


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(id_, "2024-01-01", "") for id_ in ("AB-10", "AB-9", "AA-100", "AB-1")], ["AA-100", "AB-1", "AB-9", "AB-10"]),
        ([("10", "", ""), ("9", "", "10"), ("007", " ", "")], ["007", "9", "10"]),
        # Longer than any integer.
        ([("9" * 30, "", ""), ("1" + "0" * 30, "", ""), ("8", "", "1")], ["8", "9" * 30, "1" + "0" * 30]),
    ],
)
def test_ties_and_reports_without_dates_follow_the_natural_order_of_ids(reports, expected):
    corpus = build(*reports)
    assert ids(corpus) == expected
    assert ("no report has a date, so reports are ordered by id" in corpus.warnings) == (not reports[0][1])
    assert corpus.documents.has_dates == bool(reports[0][1])


def test_dates_are_utc():
    corpus = build(("1", "2024-01-01 00:30:00 +0100", ""), ("2", "2023-12-31T23:00", ""), ("3", "2024-01-01", "1"))
    assert ids(corpus) == ["2", "1", "3"]
    assert corpus.reports["created_at"].tolist() == [
        pd.Timestamp("2023-12-31 23:00", tz="UTC"),
        pd.Timestamp("2023-12-31 23:30", tz="UTC"),
        pd.Timestamp("2024-01-01", tz="UTC"),
    ]


def test_a_date_format_of_ones_own():
    corpus = build(("1", "02.01.2024", "2"), ("2", "01.02.2024", ""), date_format="%d.%m.%Y")
    assert corpus.reports["created_at"].dt.month.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        (
            [("1", "2024-01-01", ""), ("2", "31/12/2024", ""), ("3", "soon", "")],
            r"small.csv, row 3, column 'Created_at': unreadable date '31/12/2024' \(2 in total\)",
        ),
        (
            [("1", "", ""), ("2", "", ""), (" 1 ", "", "")],
            "small.csv, rows 2 and 4, column 'Id': the id '1' occurs twice; keep only one of the two reports",
        ),
        ([("1", "", ""), (" ", "", "")], "small.csv, row 3, column 'Id': the report has no id"),
        ([], "small.csv: the file has no reports"),
    ],
)
def test_a_wrong_date_or_id_names_row_column_and_value(reports, message):
    with pytest.raises(ValueError, match=message):
        build(*reports)


def test_a_missing_date_is_that_of_the_next_lower_id_of_the_project():
    corpus = build(
        ("A-9", "2024-01-09", ""),
        ("A-10", "", ""),
        ("A-11", "2024-02-11", "A-10"),
        ("B-1", "", ""),
        ("B-2", "2024-03-02", ""),
    )
    dates = dict(zip(ids(corpus), corpus.reports["created_at"].dt.strftime("%m-%d"), strict=True))
    assert dates == {"A-9": "01-09", "A-10": "01-09", "A-11": "02-11", "B-1": "03-02", "B-2": "03-02"}
    assert corpus.warnings == (
        "reports without a date: 2, each given the date of the report with the next lower id (first: row 3)",
    )


DAYS = [f"2024-01-0{number}" for number in range(1, 5)]
CIRCLE = [("1", DAYS[0], "3"), ("2", DAYS[1], "1"), ("3", DAYS[2], "2"), ("4", DAYS[3], "1")]


@pytest.mark.parametrize(
    ("reports", "options", "group", "warnings"),
    [
        ([("10", DAYS[0], "11;12"), ("11", DAYS[1], ""), ("12", DAYS[2], "")], {}, [0, 0, 0], []),
        (
            [("1", DAYS[0], "99; 98"), ("2", DAYS[1], "1;97")],
            {},
            [0, 0],
            [
                "duplicate links to a report that is not in the file: 3, dropped; the reports are kept "
                "(first: report 1 names 99, row 2)"
            ],
        ),
        (
            [("1", DAYS[0], "1"), ("2", DAYS[1], "3"), ("3", DAYS[2], "")],
            {},
            [0, 1, 1],
            [
                "duplicate links from a report to itself: 1, dropped; the reports are kept "
                "(first: report 1 names 1, row 2)"
            ],
        ),
        (CIRCLE, {}, [0] * 4, ["cycles of duplicate links: 1, each treated as one group (first: reports 1, 2, 3)"]),
        (CIRCLE, {"mutual": True}, [0] * 4, []),
        (
            [("1", DAYS[0], "")],
            {},
            [0],
            [
                "there is only one report, so there is nothing to compare it with",
                "no report is marked as a duplicate, so every report is a group of its own",
            ],
        ),
    ],
)
def test_groups_and_what_is_odd_about_their_links(reports, options, group, warnings):
    corpus = build(*reports, **options)
    assert corpus.group.tolist() == group
    assert list(corpus.warnings) == warnings


def test_groups_agree_with_union_by_hand_on_random_links():
    generator = np.random.default_rng(0)
    links = generator.integers(0, 200, size=(120, 2))
    named: dict[int, list[str]] = {}
    master = list(range(200))
    for start, end in links.tolist():
        named.setdefault(start, []).append(str(end))
        old, new = max(master[start], master[end]), min(master[start], master[end])
        master = [new if number == old else number for number in master]
    corpus = build(*((str(row), "", ";".join(named.get(row, []))) for row in range(200)))
    assert corpus.group.tolist() == master


def test_links_keep_their_direction_and_source():
    corpus = build(("3", "2024-01-03", "1;99;2"), ("1", "2024-01-01", ""), ("2", "2024-01-02", "1"))
    assert named_by(corpus.links) == [[1, 0, "column"], [2, 0, "column"], [2, 1, "column"]]
    assert corpus.links.table.columns.tolist() == ["query", "document", "source", "made_at"]
    newest = keep_last(corpus, 2)
    assert named_by(newest.links) == [[1, 0, "column"]]
    assert (newest.links.num_queries, newest.links.num_documents) == (2, 2)


def test_links_keep_their_time():
    table = pd.DataFrame("text", index=[2, 3, 4], columns=list(BUG_FIELDS), dtype=str)
    table = table.assign(id=["1", "2", "3"], created_at="2024-01-01")
    moment = pd.Timestamp("2024-02-01", tz="UTC")
    named = [("3", "9", "comment", moment), ("3", "1", "issue link", moment), ("2", "1", "dupe_of", pd.NaT)]
    links = pd.DataFrame(named, columns=["id", "duplicate_id", "source", "made_at"])
    corpus = build_corpus("small", table, links, "small.json", COLUMNS)
    assert named_by(corpus.links) == [[1, 0, "dupe_of"], [2, 0, "issue link"]]
    assert pd.isna(corpus.links.table["made_at"][0])
    assert corpus.links.table["made_at"][1] == moment


def test_lines_of_the_tracker_s_template_are_left_out_and_counted():
    dates = [(str(number), f"2024-01-0{number}", "") for number in range(1, 5)]

    def read(**options: object) -> Corpus:
        table = pd.DataFrame("", index=range(2, 6), columns=[*BUG_FIELDS, "duplicate"], dtype=str)
        table["id"], table["created_at"], _ = zip(*dates, strict=True)
        table["description"] = ["### Bug\nIt ends"] * 3 + ["It hangs"]
        return build_corpus("small", table, split_links(table["id"], table["duplicate"]), "f", COLUMNS, **options)

    corpus = read(keep_template=False)
    assert corpus.reports["description"].tolist() == ["It ends"] * 3 + ["It hangs"]
    assert corpus.documents.template == ("### bug",)
    told = "1 line of the tracker's issue template, '### bug', is left out of 3 descriptions; "
    assert any(warning.startswith(told) for warning in corpus.warnings)
    assert read().reports["description"][0] == "### Bug\nIt ends"
