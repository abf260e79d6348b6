"""Dates that no calendar of a tracker has: they cost a reader its date, never the corpus, the index or the service."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gedbd.commands.backtest
import gedbd.commands.index
from gedbd.corpora.clients.http import limit_wait_s, server_time
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bugzilla import read_bugzilla
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.readers.gitlab import read_gitlab
from gedbd.corpora.readers.jira import read_jira
from gedbd.corpora.splits import TimeSplit, split_corpus
from gedbd.service.webhook.index_updater import read_event
from gedbd.triage.report import Filters, Report, check_report, read_moment
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.rows import StoredReport
from gedbd.triage.stored_index import open_index

FAR = [
    "0001-01-01",
    "0000-00-00 00:00:00",
    "1677-09-20T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "2200-12-31T23:59:59-01:00",
    "2262-04-12",
    "2300-01-01",
    "9999-12-31T23:59:59.999999-14:00",
    "10000-01-01",
    "+275760-09-13T00:00:00.000Z",
    "-0044-03-15",
]
NO_DATES = [
    "now",
    "today",
    "Tomorrow",
    "yesterday",
    "May",
    "NaT",
    "nan",
    "inf",
    "-inf",
    "null",
    "1706693400",
    "1706693400000",
    "1e9",
    "20",
    "2024-02-30",
    "2024-13-01",
    "2024-01-31T25:00",
    "2024-01-31T09:30:00+99:99",
    "2024-01-31T09:30:00+24:00",
    "2024-01-31T09:30:00Zulu",
    "2024\u0661-01-01",
    "\u0662\u0660\u0662\u0664-01-31",
    "9" * 5_000,
    "-" * 5_000,
    "2024-01-31" * 1_000,
]
COLUMNS = {"id": "id", "title": "title", "created_at": "created", "duplicate": None}
READERS = {
    "github": (read_github, "created_at", {"title": "a crash", "body": "it stops", "state": "open"}),
    "gitlab": (read_gitlab, "created_at", {"title": "a crash", "description": "it stops", "state": "opened"}),
    "bugzilla": (read_bugzilla, "creation_time", {"summary": "a crash", "product": "P"}),
    "jira": (read_jira, "created", {"summary": "a crash"}),
}
ITEM = "<item><key>ABC-{0}</key><summary>a crash</summary><created>{1}</created></item>"


def table(folder: Path, *dates: str, **options: object) -> Corpus:
    path = folder / "reports.csv"
    rows = [f'{number},a crash,"{date}"' for number, date in enumerate(dates, start=1)]
    path.write_text("\n".join(["id,title,created", *rows]) + "\n", encoding="utf-8")
    return read_csv(None, str(path), COLUMNS, **options)


def export(folder: Path, tracker: str, *dates: object) -> Corpus:
    read, key, fields = READERS[tracker]
    records = []
    for number, date in enumerate(dates, start=1):
        record = fields | {key: date}
        names = {"github": "number", "gitlab": "iid", "bugzilla": "id"}
        records.append(
            {"key": f"ABC-{number}", "fields": record} if tracker == "jira" else {names[tracker]: number} | record
        )
    (folder / "page.json").write_text(json.dumps(records))
    return read(None, str(folder / "page.json"))


def told(corpus: Corpus, *words: str) -> list[str]:
    return [notice for notice in corpus.warnings if all(word in notice for word in words)]


@pytest.mark.parametrize("date", FAR)
def test_a_date_out_of_range_in_a_table_is_no_date_and_is_counted(tmp_path, date):
    corpus = table(tmp_path, "2024-01-31", date, date)
    assert corpus.reports["created_at"].tolist() == [pd.Timestamp("2024-01-31", tz="UTC")] * 3
    assert told(corpus, "dates outside the years 1970 to 2200: 2", "first: reports.csv, row 3, column 'created'")


@pytest.mark.parametrize("date", FAR)
@pytest.mark.parametrize("tracker", READERS)
def test_a_date_out_of_range_in_an_export_is_no_date_and_is_counted(tmp_path, tracker, date):
    corpus = export(tmp_path, tracker, "2024-01-31T00:00:00Z", date, date)
    assert corpus.reports["created_at"].tolist() == [pd.Timestamp("2024-01-31", tz="UTC")] * 3
    key = READERS[tracker][1]
    assert told(corpus, "dates outside the years 1970 to 2200: 2", f"page.json, record 2, {key!r}")


def test_a_date_out_of_range_in_jira_s_xml_is_no_date_and_is_counted(tmp_path):
    far = ("Mon, 01 Jan 0001 00:00:00 +0000", "Fri, 01 Jan 2300 09:30:00 +0000", "Fri, 01 Jan 10000 09:30:00 +0000")
    items = ITEM.format(1, "Wed, 31 Jan 2024 09:30:00 +0000")
    items += "".join(ITEM.format(number, date) for number, date in enumerate(far, start=2))
    (tmp_path / "page.xml").write_text(f"<rss><channel>{items}</channel></rss>")
    corpus = read_jira(None, str(tmp_path / "page.xml"))
    assert told(corpus, "dates outside the years 1970 to 2200: 3", "page.xml, record 2, 'created'")


@pytest.mark.parametrize(
    "date", ["Mon, 32 Foo 2024", "now", "1 Jan 99999999999999999999 00:00:00", "0, 0 0 0 0:0:0 +9999"]
)
def test_an_unreadable_date_in_jira_s_xml_is_refused(tmp_path, date):
    (tmp_path / "page.xml").write_text(f"<rss><channel>{ITEM.format(1, date)}</channel></rss>")
    with pytest.raises(ValueError, match=r"page.xml, record 1: 'created': unreadable date"):
        read_jira(None, str(tmp_path / "page.xml"))


def test_a_change_out_of_range_is_passed_over_and_counted(tmp_path):
    history = [{"when": "0001-01-01T00:00:00Z", "changes": [{"field_name": "summary", "removed": "x", "added": "y"}]}]
    record = {"id": 1, "summary": "y", "creation_time": "2024-01-31T00:00:00Z", "history": history}
    (tmp_path / "page.json").write_text(json.dumps([record]))
    corpus = read_bugzilla(None, str(tmp_path / "page.json"))
    assert corpus.reports["title"].tolist() == ["y"]
    assert told(corpus, "dates outside the years 1970 to 2200: 1", "record 1, 'when'")


@pytest.mark.parametrize("date", NO_DATES)
def test_what_is_no_date_is_refused_with_row_and_column(tmp_path, date):
    with pytest.raises(ValueError, match=r"reports.csv, row 3, column 'created': unreadable date") as refused:
        table(tmp_path, "2024-01-31", date)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("date", NO_DATES)
@pytest.mark.parametrize("tracker", READERS)
def test_what_is_no_date_in_an_export_is_refused_with_its_record(tmp_path, tracker, date):
    with pytest.raises(ValueError, match=r"page.json, record 2: '\w+': unreadable date"):
        export(tmp_path, tracker, "2024-01-31T00:00:00Z", date)


@pytest.mark.parametrize("date", [1706693400, 1e400, float("nan"), True, [], {"year": 2024}])
@pytest.mark.parametrize("tracker", READERS)
def test_a_number_or_a_list_in_place_of_a_date_is_refused(tmp_path, tracker, date):
    with pytest.raises(ValueError, match=r"page.json, record 1: '\w+' is .*; expected: text"):
        export(tmp_path, tracker, date)


@pytest.mark.parametrize("date", ["now", "today", "NaT", "01.01.2300"])
def test_a_format_of_ones_own_reads_no_words_and_keeps_the_range(tmp_path, date):
    if date.startswith("01"):
        corpus = table(tmp_path, "31.01.2024", date, date_format="%d.%m.%Y")
        assert told(corpus, "dates outside the years 1970 to 2200: 1")
    else:
        with pytest.raises(ValueError, match="row 3, column 'created': unreadable date"):
            table(tmp_path, "31.01.2024", date, date_format="%d.%m.%Y")


def test_a_format_that_guesses_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"dataset.date_format=mixed"):
        table(tmp_path, "2024-01-31", date_format="mixed")


def test_dates_to_come_leap_seconds_and_all_usual_spellings_are_kept(tmp_path):
    spelt = [
        "2150-06-01",
        "2016-12-31T23:59:60Z",
        "2024-1-5 9:30",
        "2024/01/31",
        "20240131",
        "2024-01-31 09:30:00 +0100",
    ]
    corpus = table(tmp_path, *spelt)
    assert not told(corpus, "outside")
    assert corpus.reports.set_index("id")["created_at"].astype(str).to_dict() == {
        "1": "2150-06-01 00:00:00+00:00",
        "2": "2016-12-31 23:59:59+00:00",
        "3": "2024-01-05 09:30:00+00:00",
        "4": "2024-01-31 00:00:00+00:00",
        "5": "2024-01-31 00:00:00+00:00",
        "6": "2024-01-31 08:30:00+00:00",
    }


@pytest.mark.parametrize("date", [*FAR, *NO_DATES])
def test_the_search_command_refuses_it(date):
    with pytest.raises(ValueError, match="created_from=") as refused:
        read_moment(date, "created_from")
    assert len(str(refused.value)) < 300


def test_the_api_answers_422(client_of):
    client = client_of()
    for date in [*FAR, *NO_DATES, 1706693400, True, 0, -1e300, [], {}]:
        report = {"issue_id": "77", "title": "a crash", "created_at": date}
        asked = {"title": "a crash", "filters": {"created_from": date}}
        resolved = {"issue_id": "77", "title": "a crash", "resolved_at": date}
        for path, content in (("reports", report), ("reports", resolved), ("search", report), ("search", asked)):
            assert client.post(f"/api/{path}", json=content).status_code == 422, date


@pytest.mark.parametrize("date", [*FAR, *NO_DATES])
def test_an_event_of_the_webhook_is_refused(date):
    issue = {"number": 7, "title": "a crash", "created_at": date}
    with pytest.raises(ValueError, match=r"the event is invalid: issue\.created_at"):
        read_event({"action": "opened", "issue": issue, "repository": {"full_name": "o/r"}}, "issues")


@pytest.mark.parametrize(
    "date", [datetime.min, datetime.min.replace(tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC), datetime.max]
)
def test_the_library_refuses_it(date):
    with pytest.raises(ValueError, match="1970 and 2200"):
        check_report(Report("a crash", created_at=date))
    with pytest.raises(ValueError, match=r"resolved_at=.*1970 and 2200"):
        check_report(Report("a crash", resolved_at=date))
    with pytest.raises(ValueError, match="1970 and 2200"):
        Filters(created_from=date)


@pytest.mark.parametrize("moment", ["now", "today", "2300-01-01", "0001-01-01", "0000-01-01"])
def test_a_split_at_no_date_is_refused(tmp_path, moment):
    corpus = table(tmp_path, "2024-01-01", "2024-01-02", "2024-01-03")
    with pytest.raises(ValueError, match=rf"split.test_from={moment}"):
        split_corpus(TimeSplit(0.5, moment), corpus)


def test_an_index_that_holds_such_dates_can_be_opened(tmp_path):
    store = IndexStore(tmp_path / FILE)
    dates = ["0001-01-01T00:00:00+00:00", "2300-01-01T00:00:00+00:00", "2024-01-31T00:00:00+00:00"]
    with store.transaction():
        store.write_model({"model": "m", "dim": "2"}, b"")
        for number, date in enumerate(dates):
            report = Report("a crash", issue_id=str(number), created_at=datetime.fromisoformat(date))
            store.add([StoredReport(report, np.zeros(2, np.float32), (np.zeros(0, np.int32),) * 4)])
    days = InMemoryIndex.of(store).store.day
    store.close()
    assert np.isnan(days).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "x", "Mon, 1 Jan 2300 0:0:0 GMT"]
)
def test_a_tracker_s_clock_out_of_range_is_not_believed(date):
    assert server_time({"Date": date}, 5.0) == 5.0
    assert limit_wait_s(429, {"Retry-After": date}, "", 5.0) == 60.0
    for reset in ("999999999999", "99999-01-01", "now", "0001-01-01T00:00:00"):
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset, "Date": date}
        assert limit_wait_s(429, headers, "", 5.0) == 60.0


@pytest.mark.slow
def test_an_index_of_such_dates_is_searched_and_built_again(tmp_path, monkeypatch):
    header = "Issue_id,Title,Created_time,Duplicated_issue"
    words = ["crash", "picture", "paste", "mail", "folder", "filter", "printer", "calendar"]
    rows = [f"{2 * row},{words[row % 8]} lost {row},2024-01-{row % 28 + 1:02}," for row in range(1, 100)]
    rows += [
        f"{2 * row + 1},again {words[row % 8]} lost {row},2024-02-{row % 28 + 1:02},{2 * row}" for row in range(1, 100)
    ]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    Path("reports.csv").write_text("\n".join([header, *rows]) + "\n")
    tested = ["encoder=tiny", "max_replayed=20", "hydra.run.dir=tested", "dataset=csv", "dataset.path=reports.csv"]
    run(monkeypatch, gedbd.commands.backtest, *tested)
    for far in ("0001-01-01", "2300-01-01"):
        Path("reports.csv").write_text("\n".join([header, *rows, f"999,late mail,{far},"]) + "\n")
        run(monkeypatch, gedbd.commands.index, "run=tested", "out=index")
        index = open_index(tmp_path / "index", str(tmp_path / "cache"))
        found = index.search(Report("mail lost 3", created_at=datetime.now(UTC) + timedelta(days=900)))
        index.close()
        assert found


def run(monkeypatch, command, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["gedbd", *options])
    command.main()
