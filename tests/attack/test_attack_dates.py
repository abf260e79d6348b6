"""Dates that no calendar of a tracker has: they cost a reader its date, never the corpus, the index or the service."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from refusals import refuses
from small_tracker import fill, open_folder

from gedbd.corpora.bug_report import Filters, Report, check_report, read_moment
from gedbd.corpora.clients.tracker_client import limit_wait_s, server_time
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bugzilla import read_bugzilla
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.readers.gitlab import read_gitlab
from gedbd.corpora.readers.jira import read_jira
from gedbd.service.issue_events import read_event

FAR = ["0001-01-01", "0000-00-00 00:00:00", "1677-09-20T00:00:00Z", "1969-12-31T23:59:59Z", "10000-01-01"]
FAR += ["2200-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999-14:00", "+275760-09-13T00:00:00.000Z", "-0044-03-15"]
NO_DATES = ["now", "Tomorrow", "May", "NaT", "nan", "-inf", "null", "1706693400", "1e9", "20", "2024-02-30"]
NO_DATES += ["2024-13-01"]
NO_DATES += ["2024-01-31T25:00", "2024-01-31T09:30:00+99:99", "2024-01-31T09:30:00+24:00", "2024-01-31T09:30:00Zulu"]
NO_DATES += ["2024\u0661-01-01", "\u0662\u0660\u0662\u0664-01-31", "9" * 5_000, "-" * 5_000, "2024-01-31" * 1_000]
COLUMNS = {"id": "id", "title": "title", "created_at": "created", "duplicate": None}
READERS = {
    "github": (read_github, "created_at", {"title": "a crash", "body": "it stops", "state": "open"}),
    "gitlab": (read_gitlab, "created_at", {"title": "a crash", "description": "it stops", "state": "opened"}),
    "bugzilla": (read_bugzilla, "creation_time", {"summary": "a crash", "product": "P"}),
    "jira": (read_jira, "created", {"summary": "a crash"}),
}
EVENT = {"action": "opened", "repository": {"full_name": "o/r"}}
ITEM = "<item><key>ABC-{0}</key><summary>a crash</summary><created>{1}</created></item>"


def table(folder: Path, *dates: str, **options: object) -> Corpus:
    path = folder / "reports.csv"
    rows = [f'{number},a crash,"{date}"' for number, date in enumerate(dates, start=1)]
    path.write_text("\n".join(["id,title,created", *rows]) + "\n", encoding="utf-8")
    return read_csv(None, str(path), COLUMNS, **options)


def export(tracker: str, folder: Path, *dates: object) -> Corpus:
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


def of_table(folder: Path, *dates: object) -> Corpus:
    return table(folder, *map(str, dates))


EXPORTS = {"table": of_table, **{tracker: partial(export, tracker) for tracker in READERS}}
PLACES = {"table": "reports.csv, row 3, column 'created'"}
OTHERS = {
    "the search command": (lambda date: read_moment(date, "created_from"), "created_from="),
    "an event of the webhook": (
        lambda date: read_event(EVENT | {"issue": {"number": 7, "title": "a crash", "created_at": date}}, "issues"),
        r"the event is invalid: issue\.created_at",
    ),
}


@pytest.mark.parametrize("source", EXPORTS)
def test_a_date_out_of_range_in_an_export_is_no_date_and_is_counted(tmp_path, source):
    place = PLACES.get(source) or f"page.json, record 2, {READERS[source][1]!r}"
    for date in FAR:
        corpus = EXPORTS[source](tmp_path, "2024-01-31T00:00:00Z", date, date)
        assert corpus.reports["created_at"].tolist() == [pd.Timestamp("2024-01-31", tz="UTC")] * 3, date
        assert told(corpus, "dates outside the years 1970 to 2200: 2", place), date


@pytest.mark.parametrize("source", EXPORTS)
def test_what_is_no_date_in_an_export_is_refused_with_its_place(tmp_path, source):
    place = PLACES.get(source) or r"page.json, record 2: '\w+'"
    for date in NO_DATES:
        with refuses(f"{place}: unreadable date") as refused:
            EXPORTS[source](tmp_path, "2024-01-31T00:00:00Z", date)
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize("date", [1706693400, 1e400, True, [], {"year": 2024}])
@pytest.mark.parametrize("tracker", READERS)
def test_a_number_or_a_list_in_place_of_a_date_is_refused(tmp_path, tracker, date):
    with refuses(r"page.json, record 1: '\w+' is .*; expected: text"):
        export(tracker, tmp_path, date)


@pytest.mark.parametrize("reader", OTHERS)
def test_whoever_asks_with_either_is_refused(reader):
    read, message = OTHERS[reader]
    for date in [*FAR, *NO_DATES]:
        with refuses(message) as refused:
            read(date)
        assert len(str(refused.value)) < 300


def test_dates_in_jira_s_xml_are_counted_or_refused(tmp_path):
    page = tmp_path / "page.xml"

    def read(*dates: str) -> Corpus:
        items = "".join(ITEM.format(number, date) for number, date in enumerate(dates, start=1))
        page.write_text(f"<rss><channel>{items}</channel></rss>")
        return read_jira(None, str(page))

    far = ("Mon, 01 Jan 0001 00:00:00 +0000", "Fri, 01 Jan 2300 09:30:00 +0000", "Fri, 01 Jan 10000 09:30:00 +0000")
    corpus = read("Wed, 31 Jan 2024 09:30:00 +0000", *far)
    assert told(corpus, "dates outside the years 1970 to 2200: 3", "page.xml, record 2, 'created'")
    for date in ("Mon, 32 Foo 2024", "now", "1 Jan 99999999999999999999 00:00:00", "0, 0 0 0 0:0:0 +9999"):
        with refuses(r"page.xml, record 1: 'created': unreadable date"):
            read(date)


def test_a_change_out_of_range_is_passed_over_and_counted(tmp_path):
    history = [{"when": "0001-01-01T00:00:00Z", "changes": [{"field_name": "summary", "removed": "x", "added": "y"}]}]
    record = {"id": 1, "summary": "y", "creation_time": "2024-01-31T00:00:00Z", "history": history}
    (tmp_path / "page.json").write_text(json.dumps([record]))
    corpus = read_bugzilla(None, str(tmp_path / "page.json"))
    assert corpus.reports["title"].tolist() == ["y"]
    assert told(corpus, "dates outside the years 1970 to 2200: 1", "record 1, 'when'")


def test_a_format_of_ones_own_reads_no_words_and_keeps_the_range(tmp_path):
    corpus = table(tmp_path, "31.01.2024", "01.01.2300", date_format="%d.%m.%Y")
    assert told(corpus, "dates outside the years 1970 to 2200: 1")
    for date in ("now", "today", "NaT"):
        with refuses("row 3, column 'created': unreadable date"):
            table(tmp_path, "31.01.2024", date, date_format="%d.%m.%Y")


def test_dates_to_come_leap_seconds_and_all_usual_spellings_are_kept(tmp_path):
    spellings = {
        "2150-06-01": "2150-06-01 00:00:00",
        "2016-12-31T23:59:60Z": "2016-12-31 23:59:59",
        "2024-1-5 9:30": "2024-01-05 09:30:00",
        "2024/01/31": "2024-01-31 00:00:00",
        "20240131": "2024-01-31 00:00:00",
        "2024-01-31 09:30:00 +0100": "2024-01-31 08:30:00",
    }
    corpus = table(tmp_path, *spellings)
    assert not told(corpus, "outside")
    dates = corpus.reports.assign(number=corpus.reports["id"].astype(int)).sort_values("number")["created_at"]
    assert dates.astype(str).tolist() == [f"{date}+00:00" for date in spellings.values()]


@pytest.mark.integration
def test_the_api_answers_422(client_of):
    client = client_of()
    for date in [*FAR, *NO_DATES, 1706693400, True, 0, -1e300, [], {}]:
        report = {"issue_id": "77", "title": "a crash", "created_at": date}
        asked = {"title": "a crash", "filters": {"created_from": date}}
        resolved = {"issue_id": "77", "title": "a crash", "resolved_at": date}
        for path, content in (("reports", report), ("reports", resolved), ("search", report), ("search", asked)):
            assert client.post(f"/api/{path}", json=content).status_code == 422, date


@pytest.mark.parametrize("date", [datetime.min, datetime(2300, 1, 1, tzinfo=UTC)])
def test_the_library_refuses_it(date):
    with pytest.raises(ValueError, match="1970 and 2200"):
        check_report(Report("a crash", created_at=date))
    with pytest.raises(ValueError, match=r"resolved_at=.*1970 and 2200"):
        check_report(Report("a crash", resolved_at=date))
    with pytest.raises(ValueError, match="1970 and 2200"):
        Filters(created_from=date)


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "x", "Mon, 1 Jan 2300 0:0:0 GMT"]
)
def test_a_tracker_s_clock_out_of_range_is_not_believed(date):
    assert server_time({"Date": date}, 5.0) == 5.0
    assert limit_wait_s(429, {"Retry-After": date}, "", 5.0) == 60.0
    for reset in ("999999999999", "99999-01-01", "now", "0001-01-01T00:00:00"):
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset, "Date": date}
        assert limit_wait_s(429, headers, "", 5.0) == 60.0


def test_an_index_of_such_dates_is_searched_and_built_again(tmp_path, reader):
    for far in ("0001-01-01", "2300-01-01"):
        fill(tmp_path, table(tmp_path, "2024-01-31", far), reader)
        with closing(open_folder(tmp_path, reader)) as index:
            found = index.search(Report("a crash", created_at=datetime.now(UTC) + timedelta(days=900)))
            assert {match.best.issue_id for match in found} == {"1", "2"}
