"""An open index, with a real reader and a real file."""

import random
import sqlite3
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from small_tracker import MATCHING, RANKER, Switch, as_corpus, fill, found, open_folder, some_report, text_of

from gedbd.corpora.bug_report import Filters, Report, as_table
from gedbd.corpora.dates import is_id
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.report_ranking.report_training import ReportHistory
from gedbd.triage.backtesting.history_replay import replay
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import FORMAT, IndexStore
from gedbd.triage.triage_model import CONFIDENCE_FEATURES


@pytest.mark.integration
def test_search_says_what_the_replay_said(tmp_path, reader):
    """A new report gets the order, scores and probabilities that the backtest gave it, for any ``top_k``."""
    reports = [some_report(number * 7 % 60, created_at=some_report(number).created_at) for number in range(50)]
    reports[-1] = replace(
        reports[-1],
        title="crash of words never seen",
        description="strange strange novelties, crash in PasteTable.copyCells, error 0x80: cannot paste the cells",
        component="unheard of",
    )
    # Of three reports one is resolved after 4 days, one after 40, often later than the query comes in, and one never.
    for number in range(50):
        if number % 3:
            done = reports[number].created_at + timedelta(days=4 if number % 3 == 1 else 40)
            reports[number] = replace(reports[number], resolved_at=done)
    group = np.arange(50)
    group[[10, 20, 30]], group[49] = 4, 8
    corpus = as_corpus(reports, group)
    history = ReportHistory.of_corpus(corpus, reader(as_table(reports)))
    for row in (1, 2, 7, 31, 49):
        folder = tmp_path / str(row)
        folder.mkdir()
        fill(folder, as_corpus(reports[:row], group[:row]), reader)
        index = open_folder(folder, reader)
        said = replay(history, np.array([row]), [RANKER], "replay")
        assert set(said["open"].dropna()) == ({0.0, 1.0} if row > 2 else {1.0} if row > 1 else set())
        expected = MATCHING.confidence(said[list(CONFIDENCE_FEATURES)].to_numpy())
        for top_k in (1, 5, 20):
            matches = index.search(reports[row], top_k)
            count = min(len(matches), 5)
            assert count == min(top_k, len(said))
            assert [one.best.issue_id for one in matches[:count]] == [
                reports[candidate].issue_id for candidate in said["candidate"][:count]
            ]
            assert [one.score for one in matches[:count]] == pytest.approx(said["score"][:count], abs=1e-4)
            assert [one.probability for one in matches[:count]] == pytest.approx(expected[:count], abs=1e-6)


def test_words_of_most_reports_explain_nothing(index):
    # All reports say that something is lost when something is opened.
    assert index.search(index.get("3"))[0].explanation.terms == ("mail",)


def test_a_query_without_a_date_is_as_recent_as_the_newest_report_that_has_one(index):
    newest = some_report(19).created_at
    index.add([some_report(40, created_at=None, component="")])
    index.delete("40")
    for undated in (False, True):
        if undated:  # of a tracker whose reports partly lack dates
            with index.store.file.transaction():
                index.store.file.query("UPDATE reports SET created_at = NULL WHERE issue_id = '4'")
        opened = open_folder(index.folder, index.store.model.encode)
        without, dated = (opened.search(text_of(13, created_at=moment), 50) for moment in (None, newest))
        assert [match.score for match in without] == pytest.approx([match.score for match in dated], rel=1e-9)


def test_a_tracker_without_dates(tmp_path, reader):
    fill(
        tmp_path,
        as_corpus([some_report(n, created_at=None) for n in range(10)], [0, 1, 2, 3, 4, 5, 1, 7, 8, 9]),
        reader,
    )
    index = open_folder(tmp_path, reader)
    assert index.add([some_report(6, created_at=None)]) == {"6": "unchanged"}
    assert index.add([some_report(1, created_at=None, version="3")]) == {"1": "updated"}
    assert index.get("1").created_at is None
    index.add([some_report(30)])  # the newest, though the only one with a date
    index.link("30", "6", "triager")
    again = open_folder(tmp_path, reader)
    for one in (again, index):
        assert set(one.search(text_of(6), 50)[0].members) == {"1", "6", "30"}
        assert one.search(text_of(6), 50)[0].members[-1] == "30" or one is index
        dated = one.search(Report("crash"), 5, Filters(created_from=datetime(2020, 1, 1, tzinfo=UTC)))
        assert [match.best.issue_id for match in dated] == ["30"]
    assert again.search(text_of(6), 50)[0].master.issue_id == "1"  # an updated report is as old as it was


NASTY = {
    "nul": "a\0b\0 crash",
    "surrogate": "half \ud800 a character",
    "emoji": "\U0001f600 crash \U0001f468‍\U0001f469‍\U0001f467",
    "control": "\x1b[31mred\x07 \u2028 \x85 crash",
    "quotes": "'); DROP TABLE reports; -- \" ; %s {x}",
    "long": "word " * 40_000,
    "one word": "x" * 200_000,
    "right to left": "\u202etxet\u202c \u0645\u0631\u062d\u0628\u0627",
}


def test_nasty_texts_are_stored_and_found(index):
    reports = []
    for text in NASTY.values():
        issue_id = "id-" + "".join(sign for sign in text[:50] if is_id(sign))  # what an id may hold
        reports.append(Report(text[:900], text, issue_id, component=text[:30], created_at=some_report(9).created_at))
    assert set(index.add(reports).values()) == {"added"}
    assert set(index.add(reports).values()) == {"unchanged"}
    again = open_folder(index.folder, index.store.model.encode)
    for report in reports:
        assert index.get(report.issue_id) == report
        query = Report(report.title, report.description)
        for one in (index, again):
            assert one.search(query)[0].best == report
            assert one.search(query, 5, Filters(component=report.component))[0].best == report
            assert one.search(report)[0].best != report
    assert all(again.delete(report.issue_id) for report in reports)
    assert index.get_many([report.issue_id for report in reports]) == {}


def test_two_open_indexes_see_each_other(index):
    other = open_folder(index.folder, index.store.model.encode)
    other.add([some_report(40)])
    assert found(index, text_of(40))[0] == "40"
    assert len(index) == len(other) == 21
    index.add([some_report(41), some_report(40, title="gone elsewhere")])
    assert other.get("40").title == "gone elsewhere"
    assert found(other, text_of(41))[0] == "41"
    other.link("40", "41", "triager")
    assert index.search(text_of(41))[0].members == ("40", "41")
    index.delete("40")
    assert found(other, text_of(41))[0] == "41"
    for step in range(3):  # in turn, each with words that the other does not know
        for number, one in enumerate((index, other)):
            one.add([Report(f"strangeword{step}{number}", issue_id=f"s{step}{number}")])
    third = open_folder(index.folder, index.store.model.encode)
    for one in (index, other, third):
        for step in range(3):
            for number in range(2):
                assert found(one, Report(f"strangeword{step}{number}"))[0] == f"s{step}{number}"


@pytest.mark.integration
def test_two_indexes_in_two_threads_lose_nothing(index):
    other = open_folder(index.folder, index.store.model.encode)

    def add(one, start):
        for number in range(start, start + 15):
            one.add([Report(f"newword{number} here", issue_id=f"n{number}")])

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(add, index, 0), pool.submit(add, other, 100)]:
            future.result()
    for one in (index, other):
        assert one.search(Report("a crash"))  # reads what the other one has added
        assert len(one) == 50
        for number in (*range(15), *range(100, 115)):
            assert found(one, Report(f"newword{number} here"), top_k=1) == [f"n{number}"]


@pytest.mark.slow
def test_searches_run_while_reports_come_and_go(index):
    """With very short turns, so that a search is interrupted at every step of an addition."""
    done, failed, interval = threading.Event(), [], sys.getswitchinterval()

    def search(number):
        asked = 0
        while not done.is_set() or asked < 3:
            asked += 1
            try:
                matches = index.search(text_of(13 if number % 2 else number), 50)
                assert matches[0].best.issue_id == ("13" if number % 2 else str(number))
                names = [one for match in matches for one in match.members]
                assert len(names) == len(set(names))
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=search, args=[number]) for number in (0, 1, 2, 3)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for number in range(100, 125):
            index.add([some_report(number, title=f"ownword{number}")])
            index.add([some_report(13 if number % 2 else 7, version=str(number))])
            if number % 4 == 0:
                index.add([some_report(900)])
                index.link("900", "0", "triager")
                index.delete("900")
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not failed, failed[0]
    again = open_folder(index.folder, index.store.model.encode)
    for one in (index, again):
        assert len(one) == 45
        for number in range(100, 125):
            assert found(one, Report(f"ownword{number}"), top_k=1) == [str(number)]


def test_a_reader_that_fails_stores_nothing(index, reader):
    class Failing:
        def __init__(self, after):
            self.after = after

        def __call__(self, reports):
            self.after -= 1
            if self.after < 0:
                raise RuntimeError("out of memory")
            return reader(reports)

    switch = Switch(reader)
    opened = open_folder(index.folder, switch)
    for after in (0, 1):  # at once, and after the first batch
        switch.read = Failing(after)
        with pytest.raises(RuntimeError, match="out of memory"):
            opened.add([Report(f"freshword{number}", issue_id=f"f{number}") for number in range(100)])
        switch.read = reader
        assert len(opened) == len(open_folder(index.folder, reader)) == 20
        assert found(opened, text_of(13))[0] == "3"
    switch.read = Failing(0)
    with pytest.raises(RuntimeError, match="out of memory"):
        opened.search(Report("a crash"))
    switch.read = reader
    assert opened.add([Report("freshword7", issue_id="f7")]) == {"f7": "added"}
    assert found(opened, Report("freshword7"))[0] == "f7"


def test_a_disk_that_fails_stores_nothing(index):
    run = index.store.file.query
    pages = run("PRAGMA page_count")[0][0]
    run(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreUnavailable, match=r"index\.sqlite cannot be changed because its disk is full: free"):
        index.add([Report("strangeword " * 50, random.Random(0).randbytes(50_000).hex(), f"f{n}") for n in range(3)])
    run("PRAGMA max_page_count=1000000")
    assert len(index) == 20
    index.add([Report("strangeword", issue_id="s")])
    assert found(index, Report("strangeword"))[0] == "s"
    assert found(open_folder(index.folder, index.store.model.encode), Report("strangeword"))[0] == "s"


def test_what_is_no_index(tmp_path):
    file = tmp_path / FILE
    file.write_text("id,title\n" * 200)
    with pytest.raises(ValueError, match=r"index.sqlite is not an index \(file is not a database\): build one with"):
        IndexStore(file)
    with pytest.raises(ValueError, match=r"nowhere/index\.sqlite is not an index"):
        IndexStore(tmp_path / "nowhere" / FILE)
    file.unlink()
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE vectors (key BLOB)")
    with pytest.raises(ValueError, match=r"is not an index \(it has other tables\): build one"):
        IndexStore(file)


def test_an_index_of_the_former_format_is_read_and_gets_the_present_one_with_its_first_change(index):
    file = index.folder / FILE
    reports = index.get_many(["0", "1"])
    with closing(sqlite3.connect(file)) as former, former:
        for report in reports.values():
            former.execute(
                "UPDATE reports SET description = ? WHERE issue_id = ?", (report.description, report.issue_id)
            )
        former.execute("PRAGMA user_version=7")
    with closing(IndexStore(file, create=False)) as store:
        assert store.reports(["0", "1"]) == reports
        assert store.query("PRAGMA user_version") == [(7,)]
    long = replace(reports["1"], description="The window closes. " * 50)
    index.add([long])
    assert index.get_many(["0", "1"]) == reports | {"1": long}
    with closing(sqlite3.connect(file)) as present:
        assert present.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        ((stored,),) = present.execute("SELECT description FROM reports WHERE issue_id = '1'")
        assert len(stored) < 100
        assert zlib.decompress(stored).decode() == long.description
        present.execute("UPDATE reports SET description = ? WHERE issue_id = '1'", (stored[:-9],))
        present.commit()
    with pytest.raises(StoreUnavailable, match=r"is damaged \(a field of report 1 is not text"):
        index.get("1")


@pytest.mark.parametrize("version", [FORMAT - 2, FORMAT + 1])
def test_another_format_is_told(index, version):
    with sqlite3.connect(index.folder / FILE) as file:
        file.execute(f"PRAGMA user_version={version}")
    file.close()
    with pytest.raises(ValueError, match=f"has format {version}, but this version of gedbd reads 7 and 8: delete"):
        IndexStore(index.folder / FILE)


def test_a_report_that_comes_without_an_address_keeps_its_own_or_takes_that_of_the_template(tmp_path, reader):
    corpus = replace(as_corpus([some_report(0, url="https://a.org/0")]), url_template="https://b.org/{issue_id}")
    fill(tmp_path, corpus, reader)
    index = open_folder(tmp_path, reader)
    index.add([some_report(0, title="another"), some_report(1), some_report(2, url="https://c.org/2")])
    urls = {one: index.get(one).url for one in ("0", "1", "2")}
    assert urls == {"0": "https://a.org/0", "1": "https://b.org/1", "2": "https://c.org/2"}
    fill(tmp_path, replace(corpus, url_template="https://d.org/{issue_id}"), reader)
    index.add([some_report(3)])
    assert index.get("3").url == "https://d.org/3"


def test_a_report_is_updated_if_it_is_resolved_or_reopened(index):
    day = datetime(2024, 1, 15, tzinfo=UTC)
    resolved = some_report(3, resolved_at=day)
    assert index.add([resolved]) == {"3": "updated"}
    assert index.add([resolved]) == {"3": "unchanged"}
    assert index.get("3") == resolved
    assert index.search(text_of(3))[0].best.resolved_at == day
    assert index.store.state.memory.store["resolved"][3] == 19737
    opened = open_folder(index.folder, index.store.model.encode)
    np.testing.assert_array_equal(
        opened.store.state.memory.store["resolved"], index.store.state.memory.store["resolved"]
    )
    assert index.add([some_report(3)]) == {"3": "updated"}
    assert index.get("3").resolved_at is None
    assert np.isnan(index.store.state.memory.store["resolved"]).all()


def test_the_template_of_a_tracker_is_left_out_of_what_is_searched_and_stored(tmp_path, reader):
    reports = [some_report(number) for number in range(9)]
    corpus = as_corpus(reports, np.arange(9))
    fill(tmp_path, replace(corpus, documents=replace(corpus.documents, template=("### expected",))), reader)
    index = open_folder(tmp_path, reader)
    plain = text_of(3, description="The window closes")
    filled = text_of(3, description="### Expected\nThe window closes")
    assert index.search(filled) == index.search(plain)
    index.add([replace(filled, issue_id="new")])
    assert index.get("new").description == "The window closes"
    assert index.add([replace(filled, issue_id="new")]) == {"new": "unchanged"}
    index.close()
