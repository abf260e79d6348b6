"""Values are checked before they are believed: columns that hold no ids, files of links, dates, and pull requests."""

import re
from pathlib import Path

import pytest

from gedbd.corpora.readers.auto import read_auto
from gedbd.corpora.readers.pull_requests import is_pull_request

CASES = Path(__file__).parents[1] / "field_cases"
TOLD = re.compile("column '|in the file:|pull requests|original")
GERMAN = {
    "id": "Vorgangsschlüssel",
    "title": "Zusammenfassung",
    "created_at": "Erstellt",
    "duplicate": "Ausgehender Vorgangslink (Duplicate)",
}


def groups_of(corpus):
    named = {}
    for name, number in zip(corpus.reports["id"], corpus.group, strict=True):
        named.setdefault(number, []).append(name)
    return sorted(members for members in named.values() if len(members) > 1)


def read(tmp_path, lines, **options):
    """The corpus of the lines of a file, or of a field case."""
    if isinstance(lines, str):
        return read_auto(None, str(CASES / lines), **options)
    path = tmp_path / "bugs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_auto(None, str(path), **options)


def cells(column, *values, first=1):
    """A file in which ids count from ``first``, with one column of cells."""
    return [f"id,title,{column}", *(f'{number},Title,"{cell}"' for number, cell in enumerate(values, start=first))]


@pytest.mark.parametrize(
    ("lines", "options", "groups", "warning"),
    [
        ("duplicate_flag.csv", {}, [], "column 'duplicate' holds 0 and 1, not ids of reports, and is left out"),
        ("duplicates_count.csv", {}, [], "column 'Duplicates' holds counts, not ids .* 2, '2'.: set dataset.columns"),
        ("list_cells.csv", {}, [["11", "12", "13"]], ""),
        ("mantis.csv", {}, [["0001234", "0001240"]], ""),
        ("redmine_related.csv", {}, [["12", "15"]], "relations in column .* that are no duplicates: 2, .* row 3, 'Rel"),
        ("zendesk_group.csv", {}, [], ""),
        ("tilde.csv", {"separator": "~"}, [], ""),
        (cells("is_duplicate", "no", "yes"), {"columns": {"duplicate": "is_duplicate"}}, [], "holds no and yes, not"),
        (cells("num_duplicates", "2", "", "1"), {"columns": {"duplicate": "num_duplicates"}}, [], "holds counts"),
        (cells("duplicates", *("0", "2", "14", "1") * 9, first=4000), {}, [], "holds counts"),
        (cells("duplicates", "0", "4000", "4001", first=4000), {}, [["4000", "4001", "4002"]], ""),
        (cells("duplicate", "Ann", "Bob"), {}, [], "holds texts"),
        (cells("duplicate", "", "0", "1", "", first=0), {}, [["0", "1", "2"]], ""),  # ids count from zero
        (cells("duplicate", "1", "2", "2", "1"), {}, [["1", "4"], ["2", "3"]], ""),
        (cells("duplicate", "0", "0", "1", "1", first=0), {}, [], "holds 0 and 1"),
        (cells("merged_into", "0", "1.0", "0"), {}, [["1", "2"]], ""),
        (cells("dup", "", "", "1;2"), {}, [["1", "2", "3"]], ""),
        (["id,title,duplicate,duplicate_of", "1,a,0,", "2,b,1,1", "3,c,0,"], {}, [["1", "2"]], ""),
        (["id,number,title,duplicate_of", "9001,1,a,", "9002,2,b,#1"], {}, [["1", "2"]], ""),
        (
            cells("duplicate_of", "N/A", "https://bugs.org/show_bug.cgi?id=1#c3", "o/r/issues/2/", "bug 0003", "{1,4}"),
            *({}, [["1", "2", "3", "4", "5"]], ""),
        ),
        (cells("duplicate_of", "https://bugs.org/1/issues/99", ""), {}, [], "not in the file: 1, dropped"),
        (
            cells("Tickets", "Beziehung mit #2", "Hat Duplikat #3, #4", "Duplikat von #2, Beziehung mit #1", ""),
            *({"columns": {"duplicate": "Tickets"}}, [["2", "3", "4"]], "that are no duplicates: 2"),
        ),
        (cells("cluster", "0", "0", "-1", "-1"), {"columns": {"group": "cluster"}}, [["1", "2"]], ""),
        (cells("cluster", "0", "0"), {}, [], ""),
        (cells("status", "Merged", "Duplication", "Not a duplicate"), {}, [], "the original not recognised: 2"),
        (
            cells(
                "isPullRequest,pull_request.url,html_url",
                *('False","","x/issues/1', 'True","","', 'no","","https://github.com/o/r/pull/3'),
                *('","x/pulls/9","', '","x/pulls/5","'),
            ),
            *({}, [], "pull requests among the issues: 3, dropped"),
        ),
    ],
)
def test_cells_are_taken_for_what_they_hold(tmp_path, lines, options, groups, warning):
    corpus = read(tmp_path, lines, **options)
    assert groups_of(corpus) == groups
    told = [
        text
        for text in corpus.warnings
        if "column '" in text or "in the file:" in text or "pull" in text or "original" in text
    ]
    if warning:
        with pytest.raises(ValueError, match=warning):
            raise ValueError("\n".join(told))
    else:
        assert told == []


@pytest.mark.parametrize(
    ("pairs", "groups", "message"),
    [
        (
            (CASES / "links_pairs_labelled.csv").read_text(),
            [["11", "12"]],
            "no duplicates by 'label': 1 (first: row 3)",
        ),
        ((CASES / "links_pairs_headless.csv").read_text(), [["11", "12"], ["13", "14"]], ""),
        ("a,b,type\n11,12,Duplicate\n13,14,Relates\n14,11,Blocks\n", [["11", "12"]], "no duplicates by 'type': 2 (f"),
        ("11,12,1\n13,14,-1\n", [["11", "12"]], "no duplicates by 'column 3': 1 (first: row 2)"),
        (",a,b\n0,0011,#12\n1,13.0,14\n", [["11", "12"], ["13", "14"]], ""),
        ("a;b\n99;11\n13;14\n", [["13", "14"]], "links of pairs.csv from a report that is not in the corpus: 1, left"),
        ("a,b,score\n11,12,0.93\n", None, "pairs.csv, column 'score', row 2: '0.93' does not tell whether"),
    ],
)
def test_files_of_links(tmp_path, pairs, groups, message):
    path = tmp_path / "pairs.csv"
    path.write_text(pairs)
    if groups is None:
        with pytest.raises(ValueError, match=message):
            read(tmp_path, "links_reports4.csv", links=str(path))
        return
    corpus = read(tmp_path, "links_reports4.csv", links=str(path))
    assert groups_of(corpus) == groups
    assert message in "\n".join(corpus.warnings)


@pytest.mark.parametrize(
    ("lines", "options", "created"),
    [
        ("bigquery_utc.csv", {}, "2019-01-02T09:05:11"),
        ("linear.csv", {}, "2026-05-13T11:21:41"),
        ("jira_german.csv", {"columns": GERMAN}, "2024-01-02T09:05:00"),
        (cells("created", "1388653511.0", "1388743511.5"), {}, "2014-01-02T09:05:11"),
        (cells("created", "1388653511123"), {}, "2014-01-02T09:05:11.123000"),
        (
            cells("created", "Wed May 13 2026 13:21:41 GMT+0200 (Sommerzeit)"),
            {},
            "2026-05-13T11:21:41",
        ),
        (cells("created", "02/févr./24 9:05 PM"), {}, "2024-02-02T21:05:00"),
        (cells("created", "mardi 2 janvier 2024 à 09:05"), {}, "2024-01-02T09:05:00"),
        (cells("created", "2 de enero de 2024", "3 de sep de 2024"), {}, "2024-01-02T00:00:00"),
        (cells("created", "2 янв. 2024 9:05", "3 мая 2024 9:05"), {}, "2024-01-02T09:05:00"),
        (cells("created", "02/一月/24 9:05 下午"), {}, "2024-01-02T21:05:00"),
        (cells("created", "3. Mrz 2024"), {}, "2024-03-03T00:00:00"),
        (["id,title,created,closed", "1,a,02/01/2024,13/01/2024"], {}, "2024-01-02T00:00:00"),
        ("uk_dates.csv", {}, None),
        ("uk_dates.csv", {"date_format": "%d/%m/%Y %I:%M %p"}, "2024-01-02T09:05:00"),
    ],
)
def test_dates_as_people_and_programs_write_them(tmp_path, lines, options, created):
    if created is None:
        with pytest.raises(ValueError, match=r"may begin with the day or with the month: set dataset\.date_format='%d"):
            read(tmp_path, lines, **options)
    else:
        assert read(tmp_path, lines, **options).reports["created_at"].iloc[0].isoformat() == created + "+00:00"


def test_labels_are_read_from_lists_objects_and_commas(tmp_path):
    rows = ["['crash', 'ui']", "[{'id': 1, 'name': 'help wanted'}]", '{crash,""help me""}', "[]", "bug, ui"]
    labels = read(tmp_path, cells("labels", *rows)).reports["labels"].tolist()
    assert labels == ["crash;ui", "help wanted", "crash;help me", "", "bug;ui"]


def test_an_issue_that_names_the_pull_request_of_its_fix_is_none():
    assert not is_pull_request({"number": 12, "pull_request": "https://github.com/o/r/pull/17"}, "12")
    assert is_pull_request({"number": 17, "pull_request": {"url": "https://api.github.com/repos/o/r/pulls/17"}})
