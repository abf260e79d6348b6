"""What every store of an index keeps to: the same cases for a folder and for a PostgreSQL server."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from postgres_server import fill_store, open_store
from small_tracker import as_corpus, fill, found, open_folder, some_report, text_of

from gedbd.corpora.bug_report import Filters, Report


@pytest.fixture(params=["folder", pytest.param("server", marks=pytest.mark.integration)])
def opened(request, tmp_path, reader):
    """A function that gives the index of a corpus."""
    indexes = []

    def stored(corpus):
        if request.param == "folder":
            fill(tmp_path, corpus, reader)
            indexes.append(open_folder(tmp_path, reader))
        else:
            url = request.getfixturevalue("url")
            fill_store(url, corpus, reader)
            indexes.append(open_store(url, reader, tmp_path))
        return indexes[-1]

    yield stored
    for index in indexes:
        index.close()


@pytest.fixture
def index(opened, twenty):
    return opened(twenty)


def test_a_copy_finds_its_original_first(index):
    for number in (0, 9, 18):
        (best, *_) = index.search(text_of(number))
        assert best.best == best.master == some_report(number)
        assert best.members == (str(number),)
        assert 0 <= best.probability <= 1
        assert best.similarity == pytest.approx(1, abs=1e-3)
        assert f"word{number}" in best.explanation.terms


def test_a_group_is_found_by_its_best_report_and_named_after_its_oldest(index):
    (best, *others) = index.search(text_of(13))
    assert (best.best.issue_id, best.master.issue_id, best.members) == ("13", "3", ("3", "7", "13"))
    assert not {"3", "7", "13"} & {one.master.issue_id for one in others}
    assert [one.score for one in (best, *others)] == sorted([one.score for one in (best, *others)], reverse=True)


def test_add_update_leave_and_delete(index):
    fresh = some_report(40)
    assert index.add([fresh]) == {"40": "added"}
    assert index.add([fresh, some_report(1)]) == {"40": "unchanged", "1": "unchanged"}
    assert found(index, text_of(40))[0] == "40"
    changed = replace(fresh, title="zebra stripes", description="zebra stripes everywhere")
    assert index.add([changed]) == {"40": "updated"}
    assert index.get("40") == changed
    assert len(index) == 21
    assert found(index, Report("zebra stripes"))[0] == "40"
    assert index.search(Report("zebra stripes"))[0].explanation.terms == ("stripes", "zebra")
    assert [index.delete("40"), index.delete("40"), index.delete("nobody")] == [True, False, False]
    assert index.get("40") is None
    assert "40" not in found(index, Report("zebra stripes"), top_k=50)
    assert len(index) == 20
    assert index.add([changed]) == {"40": "added"}
    assert index.add([]) == {}


def test_of_several_with_one_id_the_last_counts(index):
    first, last = some_report(40), some_report(41, issue_id="40")
    assert index.add([first, last]) == {"40": "added"}
    assert index.get("40") == last
    assert index.add([last, some_report(2), first, last]) == {"40": "unchanged", "2": "unchanged"}
    assert len(index) == 21


def test_links_join_groups_and_survive_a_deletion(index):
    index.link("0", "5", "triager")
    index.link("15", "3", "triager")
    members = ("0", "3", "5", "7", "13", "15")
    assert index.search(text_of(13))[0].members == members
    index.delete("0")
    assert index.search(text_of(13))[0].members == members[1:]
    index.add([some_report(0)])
    assert index.search(text_of(13))[0].members == members
    index.delete("3")
    (best, *_) = index.search(text_of(13))
    assert best.members == ("0", "5", "7", "13", "15")  # two duplicates of one report are duplicates, be it deleted
    with pytest.raises(ValueError, match="report 4 cannot be a duplicate of itself"):
        index.link("4", "4", "triager")
    for one, other in (("4", "99"), ("99", "4")):
        with pytest.raises(ValueError, match="report 99 is not in the index: add it first"):
            index.link(one, other, "triager")


def test_a_group_parts_with_its_last_link(index):
    index.link("4", "5", "webhook: comment 5")
    index.link("5", "4", "webhook: comment 6")
    assert index.groups(["4"])["4"] == ["4", "5", "15"]
    assert [index.unlink("4", "5", f"webhook: comment {number}") for number in (4, 5)] == [False, True]
    assert index.groups(["4"])["4"] == ["4", "5", "15"]
    assert [index.unlink("4", "5"), index.unlink("4", "5")] == [True, False]
    assert (index.groups(["4"])["4"], index.groups(["5"])["5"]) == (["4"], ["5", "15"])


def test_its_own_id_is_never_a_candidate(index):
    for number in range(20):
        for match in index.search(some_report(number), top_k=50):
            assert match.best.issue_id != str(number)
    assert "3" in [match.master.issue_id for match in index.search(some_report(13), top_k=50)]  # its group may be found


def test_filters_by_date_and_component(index):
    since, until = some_report(5).created_at, some_report(9).created_at
    query = text_of(13)
    everything = {match.best.issue_id for match in index.search(query, 50)}
    assert len(everything) == 17  # groups
    late = index.search(query, 50, Filters(created_from=since, created_before=until))
    assert {match.best.issue_id for match in late} == {"5", "6", "7", "8"}
    assert {match.best.component for match in index.search(query, 50, Filters(component="UI"))} == {"ui"}
    both = index.search(query, 50, Filters(until, None, "net"))
    assert {match.best.issue_id for match in both} == {"10", "13", "16", "19"}
    nothing = (
        Filters(component="printing"),
        Filters(created_from=datetime(2030, 1, 1, tzinfo=UTC)),
        Filters(until, since),
    )
    assert [index.search(query, 50, filters) for filters in nothing] == [[], [], []]
    index.add([some_report(11, component="UI parts, Network, net "), some_report(12, component="Draw, Net")])
    for name, ids in {"NET": {"11", "12"}, "ui parts": {"11"}, "draw, net": {"12"}, "work": set(), "ui": set()}.items():
        two = Filters(some_report(11).created_at, some_report(13).created_at, name)
        assert {match.best.issue_id for match in index.search(query, 50, two)} == ids
    sixth = some_report(6).created_at.astimezone(timezone(timedelta(hours=5)))
    met = [found(index, query, top_k=50, filters=Filters(sixth + timedelta(hours=more))) for more in (0, 1)]
    assert set(met[0]) - set(met[1]) == {"6"}


@pytest.mark.parametrize("top_k", [0, 51, 1.5])
def test_how_many_can_be_asked_for(index, top_k):
    with pytest.raises(ValueError, match=f"top_k={top_k} must be a whole number between 1 and 50"):
        index.search(Report("a"), top_k)
    assert len(index.search(Report("a crash"), 3)) == 3


def test_bad_reports_are_refused_whole(index):
    for report, message in (
        (Report("a title"), "give issue_id"),
        (Report("a", issue_id=" "), "give issue_id"),
        (Report(issue_id="9"), "neither a title nor a description"),
        (Report("", "x" * 200_001, "9"), "200,001 characters"),
    ):
        with pytest.raises(ValueError, match=message):
            index.add([some_report(40), report])
        assert index.get("40") is None
    with pytest.raises(ValueError, match="neither a title nor a description"):
        index.search(Report(" "))


def test_a_report_without_a_date_keeps_the_one_it_had(index):
    before = datetime.now(UTC)
    index.add([some_report(40, created_at=None), some_report(4, created_at=None, title="another")])
    assert before <= index.get("40").created_at <= datetime.now(UTC)
    assert index.get("4").created_at == some_report(4).created_at
    assert index.add([some_report(40, created_at=None)]) == {"40": "unchanged"}


def test_matches_carry_the_addresses_of_their_reports(index):
    index.add([some_report(number, url=f"https://b.org/{number}") for number in (3, 13)])
    (best, *_) = index.search(text_of(13))
    assert (best.master.url, best.best.url) == ("https://b.org/3", "https://b.org/13")
    assert best.urls == {"3": "https://b.org/3", "13": "https://b.org/13"}


def test_a_report_that_is_forgotten_leaves_its_duplicates_tied(index):
    assert [index.forget("3"), index.forget("3"), index.forget("nobody")] == [True, False, False]
    assert index.get("3") is None
    assert index.search(text_of(13))[0].members == ("7", "13")


def test_groups_and_vectors_of_reports_are_given_by_id(index):
    assert index.groups(["13"])["13"] == ["3", "7", "13"]
    assert index.groups(["nobody"])["nobody"] == []
    assert index.groups(["7", "0"]) == {"7": ["3", "7", "13"], "0": ["0"]}
    ids, vectors = index.vectors()
    some, chosen = index.vectors(["13", "nobody", "2"])
    assert (ids, some) == ([str(number) for number in range(20)], ["13", "2"])
    assert (chosen == vectors[[13, 2]]).all()
    assert index.newest_day() == (some_report(19).created_at - datetime(1970, 1, 1, tzinfo=UTC)).days


def test_an_index_that_becomes_empty_can_be_searched_and_filled(opened):
    index = opened(as_corpus([some_report(0)]))
    assert [one.members for one in index.search(Report("anything"))] == [("0",)]
    index.delete("0")
    assert (len(index), index.search(Report("anything at all")), index.get("0")) == (0, [], None)
    assert index.vectors()[0] == []
    index.add([some_report(1)])
    assert found(index, Report("anything")) == ["1"]
