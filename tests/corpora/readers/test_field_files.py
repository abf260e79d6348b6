"""Files as people's trackers and tools write them: what each must give."""

import json
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import Corpus
from gedbd.io.files import CONF_DIR

FILES = Path(__file__).parents[2] / "field_cases"


@cache
def composed(*options: str) -> DictConfig:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose("index", ["out=index", *options]).dataset


def read(path: Path | str, *options: str) -> Corpus:
    """A corpus as a command reads it, in a format that is recognised unless the options name one."""
    return instantiate(OmegaConf.merge(composed(*options), {"path": str(path)}))


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(folder: Path, name: str, *records: object) -> Path:
    return written(folder, name, "".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    ("file", "options", "group", "format_"),
    [
        ("author_is_text.json", [], [0, 0], "github"),
        ("azure_html.csv", [], [0, 1], "azure"),
        ("bugzilla_two_files", [], [0, 0], "bugzilla"),
        ("cp1252.csv", [], [0, 0], "csv"),
        ("duplicate_phrases.json", [], [0] * 8, "github"),
        ("duplicates_as_floats.csv", [], [0, 0], "csv"),
        ("duplicates_with_commas.csv", [], [0, 0, 0], "csv"),
        ("excel_sep_line.csv", [], [0, 0], "csv"),
        ("gharchive.json", [], [0], "github"),
        ("gitlab_project_export.ndjson", [], [0, 0], "gitlab"),
        ("group_column.csv", ["dataset.columns.group=Group"], [0, 0, 2], "csv"),
        ("issue_template.json", [], list(range(9)), "github"),
        ("jira_repeated_columns.csv", [], [0, 0, 0], "jira"),
        ("two_repositories.json", [], [0, 1, 0], "github"),
    ],
)
def test_groups_and_the_format_that_is_recognised(file, options, group, format_):
    corpus = read(FILES / file, *options)
    assert corpus.group.tolist() == group
    assert corpus.warnings[0] == f"{file} is read as dataset={format_}"


@pytest.mark.parametrize(
    ("file", "format_", "dates", "group", "field", "values"),
    [
        (
            "azure_description.csv",
            "azure",
            "2024-01-02 09:05:11",
            [0, 1],
            "description",
            ["Nothing is drawn.", "The window is empty."],
        ),
        ("backlog.json", "backlog", "2019-01-02 09:05:11", [0, 1], "id", ["BLG-1", "BLG-2"]),
        ("bigquery_utc.csv", "csv", "2019-01-02 09:05:11", [0, 0, 2], "id", ["1", "2", "3"]),
        ("bugzilla_rest_names.csv", "csv", "2014-01-02 09:05:11", [0, 0], "os", ["Linux", "Linux"]),
        ("bugzilla_xml.xml", "bugzilla_xml", "2014-01-02 09:05:00", [0, 0], "component", ["UI", "UI"]),
        ("gh_search.json", "github", "2019-01-02 09:05:11", [0, 1], "id", ["1", "3"]),
        ("github_flattened.csv", "github", "2024-01-02 09:05:11", [0, 1], "labels", ["bug", ""]),
        ("gitlab_graphql.json", "gitlab", "2019-01-02 09:05:11", [0, 0], "status", ["opened", "closed"]),
        ("jira_server_pipe.csv", "jira", "2024-01-02 09:05:00", [0, 0], "id", ["AB-1", "AB-2"]),
        ("lazar_eclipse.jsonl", "bugzilla_xml", "2002-01-02 14:05:00", [0, 0], "id", ["11", "12"]),
        ("linear.csv", "linear", "2026-05-13 11:21:41", [0, 1, 0], "id", ["APP-1", "APP-2", "APP-10"]),
        ("mantis.csv", "mantis", "2024-01-02 00:00:00", [0, 0, 2], "id", ["0001234", "0001240", "0001241"]),
        ("monorail.csv", "monorail", "2014-01-02 09:05:11", [0, 0, 2], "labels", ["Pri-1;OS-Linux", "Pri-2", "Pri-2"]),
        ("redmine_related.csv", "redmine", "2024-01-02 09:05:00", [0, 0, 2], "id", ["12", "15", "17"]),
        ("youtrack.json", "youtrack", "2019-01-02 09:05:11", [0, 0, 2], "id", ["APP-5", "APP-9", "APP-10"]),
        (
            "zendesk_group.csv",
            "zendesk",
            "2024-01-02 09:05:00",
            [0, 1, 2],
            "component",
            ["Support", "Support", "Billing"],
        ),
    ],
)
def test_what_exports_of_other_trackers_say(file, format_, dates, group, field, values):
    corpus = read(FILES / file)
    assert corpus.warnings[0] == f"{file} is read as dataset={format_}"
    assert corpus.reports["created_at"][0] == pd.Timestamp(dates, tz="UTC")
    assert corpus.group.tolist() == group
    assert corpus.reports[field].tolist() == values


def test_what_the_cells_of_azure_say():
    reports = read(FILES / "azure_html.csv").reports
    assert reports["title"].tolist() == ["Total is wrong", "Sum shows zero"]
    assert [date.isoformat() for date in reports["created_at"]] == [
        "2023-12-31T15:30:19+00:00",
        "2024-01-02T09:05:00+00:00",
    ]
    assert [line for line in reports["description"][0].splitlines() if line] == ["Open the bill", 'The total is "0"']


def test_what_jira_s_repeated_columns_say():
    reports = read(FILES / "jira_repeated_columns.csv").reports
    assert reports["id"].tolist() == ["AB-1", "AB-2", "AB-3"]
    assert [f"{date:%dT%H:%M}" for date in reports["created_at"]] == ["01T09:05", "02T09:05", "03T13:05"]


def test_an_export_of_jira_s_that_is_read_as_a_table_is_recognised(tmp_path):
    plain = written(tmp_path, "plain.csv", "Summary,Issue key\nSlow,AB-1\n")
    for file in (FILES / "jira_repeated_columns.csv", plain):
        with pytest.raises(
            InstantiationException, match=f"{file.name}: this looks like a jira export: set dataset=jira"
        ):
            read(file, "dataset=csv")
    named = ("dataset.columns.id=Issue key", "dataset.columns.title=Summary", "dataset.columns.duplicate=null")
    assert read(plain, "dataset=csv", *named).reports["id"].tolist() == ["AB-1"]


def jira_rows(*dates: str) -> str:
    return "Issue key,Summary,Created\n" + "".join(f"AB-{n},Slow,{date}\n" for n, date in enumerate(dates, start=1))


@pytest.mark.parametrize("dataset", ["auto", "jira"])
@pytest.mark.parametrize(
    ("dates", "options", "day"),
    [
        (["27.11.2024 10:15", "2024-11-27T10:15:00"], [], "27T10:15"),
        (["01/12/24 16:26", "27/11/24 10:15"], [], "01T16:26"),
        (["11/27/2024 9:15 PM"], [], "27T21:15"),
        (["27/Nov/24", "27/Nov/24 9:15 AM"], [], "27T00:00"),
        (["01/09/11 16:26"], ["dataset.date_format='%m/%d/%y %H:%M'"], "09T16:26"),
        (["2024/2/1"], ["dataset.date_format='%Y/%d/%m'"], "02T00:00"),  # not as in ISO 8601
    ],
)
def test_dates_of_a_csv_of_jira(tmp_path, dataset, dates, options, day):
    path = written(tmp_path, "bugs.csv", jira_rows(*dates))
    reports = read(path, f"dataset={dataset}", *options).reports.set_index("id")
    assert f"{reports['created_at']['AB-1']:%dT%H:%M}" == day


@pytest.mark.parametrize(
    ("date", "options", "message"),
    [
        (
            "01/09/11 16:26",
            [],
            r"bugs\.csv: dates such as .* set dataset\.date_format='%d/%m/%y %H:%M' or .*'%m/%d/%y %H:%M'",
        ),
        (
            "28/Xyz/24 9:15 PM",
            [],
            r"row 2: 'created': unreadable date '28/Xyz/24 9:15 PM'; expected: 27/Nov/24 9:15 AM or 2024-01-31T09:30"
            r":00Z; other formats: dataset\.date_format=",
        ),
        ("27/Nov/24", ["dataset.date_format=mixed"], r"bugs\.csv: dataset\.date_format=mixed guesses"),
    ],
)
def test_dates_of_a_csv_of_jira_that_are_asked_for(tmp_path, date, options, message):
    with pytest.raises(InstantiationException, match=message):
        read(written(tmp_path, "bugs.csv", jira_rows(date)), *options)


def test_named_columns_of_which_some_occur_twice(tmp_path):
    header = "Schlüssel,Titel,Bereich,Bereich,Externe (Duplicate),Externe (Duplicate),Kommentar,Kommentar"
    path = written(tmp_path, "bugs.csv", f"{header}\nAB-1,a,map,print,,,x,y\nAB-2,b,,map,AB-1,,,\nAB-3,c,,,,AB-2,,\n")
    named = ("id='Schlüssel'", "title=Titel", "component=Bereich", "duplicate='Externe (Duplicate)'")
    options = ("dataset=csv", *(f"dataset.columns.{one}" for one in named))
    corpus = read(path, *options)
    assert corpus.reports["component"].tolist() == ["map, print", "map", ""]
    assert corpus.group.tolist() == [0, 0, 0]
    with pytest.raises(
        InstantiationException, match=r"bugs\.csv, row 1: the column 'Kommentar' occurs twice; rename one"
    ):
        read(path, *options, "dataset.columns.description=Kommentar")
    jira = FILES / "jira_repeated_columns.csv"
    with pytest.raises(
        InstantiationException, match=r"does not apply to dataset=jira.*: leave it out, or set dataset=csv"
    ):
        read(jira, "dataset.columns.id=Issue key")
    keys = ("id='Issue key'", "title=Summary", "created_at=Created", "duplicate='Inward issue link (Duplicate)'")
    corpus = read(jira, "dataset=csv", *(f"dataset.columns.{one}" for one in keys))
    assert corpus.group.tolist() == [0, 0, 0]


def test_warnings_name_the_row_of_a_csv_of_jira_and_its_page(tmp_path):
    second = "Issue key,Summary,Outward issue link (Duplicate)\nAB-2,Slow,\nAB-3,Slow,AB-9\n"
    pages = tmp_path / "pages"
    pages.mkdir()
    written(pages, "1.csv", jira_rows("27/Nov/24"))
    page = written(pages, "2.csv", second)
    for place, row in ((page, "row 3"), (pages, "row 3 of 2.csv")):
        warnings = read(place).warnings
        assert any(warning.endswith(f"(first: report AB-3 names AB-9, {row})") for warning in warnings)


@pytest.mark.parametrize(
    "event",
    [
        {"action": "opened", "issue": {"number": 1}, "repository": {"full_name": "o/r"}},
        {"object_kind": "issue", "project": {"id": 1}, "object_attributes": {"iid": 1}},
        {"timestamp": 1, "webhookEvent": "jira:issue_created", "issue": {"key": "AB-1"}},
    ],
)
def test_an_event_of_a_webhook_is_told(tmp_path, event):
    message = f"this looks like a webhook event, not an export; its keys are {', '.join(event)}: export the issues"
    with pytest.raises(InstantiationException, match=message):
        read(lines(tmp_path, "event.json", event))


def test_what_other_files_say():
    assert {"check again", "ship"} <= {*read(FILES / "jira_v3.json").reports["description"][0].splitlines()}
    addresses = read(FILES / "github_flattened.csv").reports["url"].tolist()
    assert addresses == [f"https://github.com/o/r/issues/{number}" for number in (1, 2)]
    gitlab = read(FILES / "gitlab_graphql.json").reports
    assert (gitlab["labels"][0], gitlab["url"][0]) == ("bug", "https://gitlab.example.org/g/p/-/issues/1")
    assert gitlab["resolved_at"][1] == pd.Timestamp("2019-01-03 09:05:11", tz="UTC")
    assert "pull requests among the issues: 1, dropped" in read(FILES / "gh_search.json").warnings
    assert read(FILES / "bugzilla_two_files").reports["description"][0] == "One hour in summer."
    assert read(FILES / "cp1252.csv").reports["title"].tolist() == ["Menü ist leer", "Leeres Menü"]
    assert "records of other kinds: 1, dropped" in read(FILES / "gharchive.json").warnings
    gitlab = read(FILES / "gitlab_project_export.ndjson").reports
    assert gitlab["component"].tolist() == ["", "ui"]
    assert read(FILES / "two_repositories.json").reports["id"].tolist() == ["o/r#1", "o/s#1", "o/s#2"]


def test_one_of_several_repositories_may_be_chosen():
    corpus = read(FILES / "two_repositories.json", "dataset=github", "dataset.repositories=[o/s]")
    assert corpus.reports["id"].tolist() == ["1", "2"]
    assert "issues of other repositories: 1, dropped" in corpus.warnings
    assert any("in another repository" in warning for warning in corpus.warnings)


EVENT = {"repo": {"name": "o/r"}, "created_at": "2024-01-01T10:00:00Z"}


def archived(number: int, state: str = "open", **more: object) -> dict[str, object]:
    issue = {"number": number, "title": f"Crash {number}", "body": "It ends.", "created_at": "2024-01-01T10:00:00Z"}
    return issue | {"state": state, "html_url": f"https://github.com/o/r/issues/{number}", "labels": []} | more


def test_events_of_one_issue_are_joined_with_their_comments(tmp_path):
    comment = {"body": "Duplicate of #1", "user": {"login": "ann"}, "created_at": "2024-01-02T10:00:00Z"}
    events = [
        {"type": "IssuesEvent", "payload": {"action": "opened", "issue": archived(1)}},
        {"type": "IssuesEvent", "payload": {"action": "opened", "issue": archived(2)}},
        {"type": "IssueCommentEvent", "payload": {"issue": archived(2), "comment": comment}},
        {"type": "IssuesEvent", "payload": {"action": "closed", "issue": archived(2, "closed")}},
        {"type": "PushEvent", "payload": {"size": 1}},
    ]
    corpus = read(lines(tmp_path, "events.json", *(EVENT | event for event in events)))
    assert corpus.group.tolist() == [0, 0]
    assert corpus.reports["status"].tolist() == ["open", "closed"]
    assert "records of other kinds: 1, dropped" in corpus.warnings


def test_a_migration_archive_names_others_by_their_addresses(tmp_path):
    at = "https://github.com/o/r/issues"
    user = "https://github.com/ann"
    issues = [
        {"type": "issue", "url": f"{at}/{number}", "user": user, "title": f"Crash {number}", "body": None, "labels": []}
        | {"created_at": f"2024-01-0{number}T10:00:00Z", "closed_at": closed}
        for number, closed in ((1, None), (2, "2024-01-05T10:00:00Z"))
    ]
    issues[1]["labels"] = ["https://github.com/o/r/labels/area%3A%20map"]
    comment = {"type": "issue_comment", "url": f"{at}/2#issuecomment-1", "issue": f"{at}/2", "user": user}
    comment |= {"body": "Duplicate of #1", "created_at": "2024-01-05T10:00:00Z"}
    other = {"type": "user", "url": user, "login": "ann", "user": user}
    folder = tmp_path / "archive"
    folder.mkdir()
    lines(folder, "issue_comments_000001.json", comment)
    lines(folder, "issues_000001.json", *issues)
    lines(folder, "users_000001.json", other)
    corpus = read(folder)
    assert corpus.group.tolist() == [0, 0]
    assert corpus.reports["labels"].tolist() == ["", "area: map"]
    assert corpus.reports["component"].tolist() == ["", "map"]
    assert corpus.reports["status"].tolist() == ["open", "closed"]


def test_a_value_that_is_no_number_and_extended_json_are_read(tmp_path):
    issue = archived(1, body=float("nan"), created_at={"$date": 1704103200000}, id={"$oid": "5f"})
    issue["number"] = {"$numberInt": "7"}
    report = read(lines(tmp_path, "dump.json", issue)).reports.iloc[0]
    assert (report["id"], report["description"]) == ("7", "")
    assert report["created_at"] == pd.Timestamp("2024-01-01T10:00:00Z")


def closed(*comments: str | dict[str, object], **more: object) -> dict[str, object]:
    """An issue with some comments that was closed, as a duplicate unless the labels say otherwise."""
    told = [comment if isinstance(comment, dict) else {"body": comment} for comment in comments]
    duplicate = {"labels": [{"name": "duplicate"}], "comments": told, "closed_at": "2024-01-02T12:00:00Z"}
    return archived(5, "closed") | duplicate | more


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ({"author_association": "MEMBER", "created_at": "2024-01-02T11:00:00Z"}, 1),
        ({"author_association": "NONE", "created_at": "2024-01-02T11:00:00Z"}, 0),
        ({"author_association": "MEMBER", "created_at": "2024-01-01T11:00:00Z"}, 0),
        ({"author_association": "MEMBER", "created_at": "2024-01-02T11:00:00Z", "body": "#1 too"}, 0),
    ],
)
def test_a_member_s_bare_number_on_the_day_of_closing_is_a_mark_of_its_own(tmp_path, comment, count):
    path = lines(tmp_path, "issues.json", archived(1), closed({"body": "#1"} | comment, labels=[]))
    assert read(path).links.table["source"].tolist() == ["reference"] * count
    assert len(read(path, "dataset=github", "dataset.references=false").links) == 0


@pytest.mark.parametrize(("named", "group"), [({}, [0, 1, 1]), ({"dup_id": 0}, [0, 1, 1]), ({"dup_id": 1}, [0, 1, 0])])
def test_a_guess_in_a_comment_counts_where_no_field_names_the_original(tmp_path, named, group):
    bugs = [{"bug_id": number, "short_desc": "Slow", "bug_status": "NEW", "resolution": ""} for number in (1, 2, 3)]
    bugs[2] |= {"resolution": "DUPLICATE", "long_desc": [{"thetext": "x"}, {"thetext": "Same as bug 2"}], **named}
    assert read(lines(tmp_path, "bugs.jsonl", *bugs)).group.tolist() == group


TABLE = "Issue_id,Title,Created_time,Duplicated_issue,Resolution\n"


@pytest.mark.parametrize(
    ("cell", "group"),
    [
        ("#1", [0, 1, 0]),
        ("1.0", [0, 1, 0]),
        ('"1, 2"', [0, 0, 0]),
        ("1 and 2", [0, 0, 0]),
        ("PROJ-1 ", [0, 1, 2]),
        (" 2;1", [0, 0, 0]),
    ],
)
def test_ids_are_found_however_a_cell_writes_them(tmp_path, cell, group):
    rows = f"1,a,2024-01-01,,\n2,b,2024-01-02,,\n3,c,2024-01-03,{cell},\n"
    assert read(written(tmp_path, "bugs.csv", TABLE + rows)).group.tolist() == group


def test_duplicates_without_an_original_are_counted(tmp_path):
    rows = "1,a,2024-01-01,,\n2,b,2024-01-02,,Duplicate\n"
    warnings = read(written(tmp_path, "bugs.csv", TABLE + rows)).warnings
    assert "reports closed as duplicates, the original not recognised: 1 (first: row 3)" in warnings


def test_a_second_file_of_links(tmp_path):
    path = written(tmp_path, "bugs.csv", TABLE + "1,a,2024-01-01,,\n2,b,2024-01-02,,\n3,c,2024-01-03,,\n")
    links = written(tmp_path, "links.csv", "report;duplicates\n3;#1\n")
    corpus = read(path, f"dataset.links='{links}'")
    assert corpus.group.tolist() == [0, 1, 0]
    assert corpus.links.table["source"].tolist() == ["links.csv"]
    single = written(tmp_path, "one.csv", "report\n3\n")
    with pytest.raises(Exception, match=r"one\.csv, row 1: no comma"):
        read(path, f"dataset.links='{single}'")


def test_an_option_of_tables_is_refused_for_others(tmp_path):
    with pytest.raises(Exception, match=r"dataset\.columns\.id= does not apply to dataset=github"):
        read(FILES / "gharchive.json", "dataset.columns.id=a")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Title,Description,Issue ID,URL,State,Created At (UTC),Closed At (UTC)", "T,D,7,https://x.org/7,Open,{},"),
        ("Issue Id,Project,Tags,Summary,Created,Resolved,State,duplicates", 'AB-7,A,,T,"{:%d %b %Y %H:%M}",,Open,'),
        ("Id,Project,Product Version,Category,Date Submitted,OS,Summary,Status", "0000007,A,1.0,map,{},Linux,T,new"),
        ("id,Summary,Owner,Description,Status,Component,Created", "7,T,bob,D,new,map,{}+00:00"),
        ('"Bug ID","Product","Component","Status","Summary","Opened"', '7,"A","map","NEW","T","{}"'),
    ],
    ids=["gitlab", "youtrack", "mantis", "trac", "bugzilla"],
)
def test_tables_that_trackers_export(tmp_path, header, row):
    moment = pd.Timestamp("2024-01-31 09:05")
    reports = read(written(tmp_path, "export.csv", f"{header}\n{row.format(moment)}\n")).reports
    assert reports["title"].tolist() == ["T"]
    assert reports["id"][0].endswith("7")
    assert reports["created_at"][0] == moment.tz_localize("UTC")


def test_tables_that_pandas_writes(tmp_path):
    rows = [archived(1), archived(2, "closed", comments=[{"body": "Duplicate of #1"}])]
    table = pd.DataFrame(rows)
    for orient in ("columns", "split", "records"):
        file = tmp_path / f"{orient}.json"
        table.to_json(file, orient=orient)
        assert read(file).group.tolist() == [0, 0]
