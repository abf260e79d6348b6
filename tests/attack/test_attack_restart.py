"""What an index answers depends on what is stored, never on what was: it is as after a restart, to the bit."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from small_tracker import as_corpus, fill, open_folder, some_report, stored_terms, tiny_reader

from gedbd.corpora.bug_report import Filters, Report
from gedbd.retrieval.report_ranking.feature_store import FIELDS, TERM_KINDS

pytestmark = pytest.mark.slow

QUERIES = (
    some_report(3, issue_id=""),
    some_report(14),
    Report("crash paste crash picture", "word3 word4 newword menu toolbar", component="ui", product="Mail"),
    Report("nothing known here"),
)
NARROW = Filters(component="net"), Filters(created_from=some_report(4).created_at)
SEARCHES = (*((query, Filters()) for query in QUERIES), *((QUERIES[2], filters) for filters in NARROW))
IDS = [str(number) for number in range(12)]
TITLES = ["crash", "crash in the toolbar", "the picture is lost when pasted", "newword", "menu menu of the editor", ""]
MOMENT = datetime(2024, 1, 20, 3, 4, 5, 6, UTC)


def answers(index):
    """All that searches say, with every number."""
    return [repr(index.search(query, 50, filters)) for query, filters in SEARCHES]


def numbers(index):
    """All that searches compare."""
    memory = index.store.state.memory
    store = memory.store
    codes = np.stack([store[name] for name in FIELDS])
    alike = codes[:, :, None] == codes[:, None]  # the codes tell no more
    members = sorted(memory.groups.members.items())
    arrays = [store.vectors.filled, alike, store["day"], memory.groups.group, *(rows for _, rows in members)]
    terms = np.arange(index.store.file.num_terms())
    for kind in TERM_KINDS:
        postings = store.terms[kind]
        where, sizes = postings.lists.find(postings.rows.places(np.arange(len(store))))
        arrays += [postings.frequency(terms), postings.lists.terms.take(where), sizes]
    found = [array.tobytes() for array in arrays]
    ids = memory.ids
    assert [memory.row_of[one] for one in ids] == list(range(len(memory)))
    words = stored_terms(index.store.file)
    return [ids, words, [group for group, _ in members], found]


def groups_of(ids, links):
    """The groups of reports that links tie, be some of their ends not stored."""
    groups = [{one} for one in {*ids, *(end for link in links for end in link[:2])}]
    for first, second, _ in links:
        tied = [group for group in groups if first in group or second in group]
        groups = [group for group in groups if group not in tied] + [set().union(*tied)]
    return {frozenset(group & set(ids)) for group in groups if group & set(ids)}


def check(index, reader, reports=None, links=()):
    """An index that is opened now says the same; and both hold what a plain dictionary holds."""
    fresh = open_folder(index.folder, reader)
    assert answers(index) == answers(fresh)
    assert numbers(index) == numbers(fresh)
    fresh.close()
    if reports is None:
        return
    assert len(index) == len(reports)
    assert {one: index.get(one) for one in (*IDS, *reports)} == {one: reports.get(one) for one in (*IDS, *reports)}
    found = {frozenset(match.members) for match in index.search(QUERIES[-1], 50)}
    assert found == groups_of(list(reports), links)


@pytest.fixture
def opened(tmp_path, reader):
    fill(tmp_path, as_corpus([some_report(number, product="Mail") for number in range(20)]), reader)
    index = open_folder(tmp_path, reader)
    yield index
    index.close()


def test_an_addition_that_fails_leaves_no_trace(opened, reader):
    run = opened.store.file.query
    pages = run("PRAGMA page_count")[0][0]
    run(f"PRAGMA max_page_count={pages}")
    long = Random(0).randbytes(100_000).hex()  # stays long when it is compressed
    with pytest.raises(Exception, match="full"):
        opened.add([Report("never heard before", long, f"f{number}", product="Web") for number in range(3)])
    run("PRAGMA max_page_count=1000000")
    check(opened, reader)
    opened.add([some_report(50, title="heard now")])
    check(opened, reader)


@pytest.mark.parametrize("tail", [1, 3, 512])
def test_answers_do_not_depend_on_how_postings_are_split(opened, reader, monkeypatch, tail):
    monkeypatch.setattr("gedbd.retrieval.inverted_index.TAIL", tail)
    for number in range(30):
        opened.add([some_report(number * 7 % 40, title=TITLES[number % 5], os=str(number))])
        if number % 4 == 0:
            opened.delete(str(number * 3 % 40))
    check(opened, reader)


def test_a_search_that_began_before_a_change_answers_as_before(opened):
    """The state that a search has begun with stays what it was, whatever comes meanwhile."""
    from gedbd.triage.stored_index import find_matches

    state = opened.store.state
    before = answers(opened)
    opened.add([some_report(3, title="crash crash"), some_report(60, title="crash toolbar picture")])
    opened.delete("5")
    stored = [replace(some_report(number, product="Mail")) for number in (3, 5)]
    opened.add(stored)
    said = [repr(find_matches(state, query, 50, filters)) for query, filters in SEARCHES]
    assert said == before


def test_explanations_are_the_same_in_every_process():
    """Words lie in sets, whose order changes with each start of Python."""
    program = (
        "from gedbd.corpora.bug_report import Report; from gedbd.triage.explanation import explain; import numpy as np;"
        "text = ' '.join(f'strange{n} words{n}' for n in range(40));"
        "print(explain(Report('a', text), [Report('b', text + '. ' + text)],"
        " lambda some: np.array([0.1 + len(w) / 7 + sum(map(ord, w)) / 997 for w in some])))"
    )
    said = set()
    for seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        said.add(process.stdout)
    assert len(said) == 1


READER = tiny_reader()
some_ids = st.sampled_from(IDS)
some_reports = st.builds(
    Report,
    st.sampled_from(TITLES),
    st.sampled_from(["word3 is lost", "The menu crash. The toolbar is gone since the update!", "x"]),
    some_ids,
    st.integers(0, 10**9).map(lambda second: MOMENT + timedelta(microseconds=second * 1_000_003)),
    product=st.sampled_from(["Mail", "Web", ""]),
    component=st.sampled_from(["ui", "UI", "net", ""]),
)


class Machine(RuleBasedStateMachine):
    """Adds, updates, deletes, ties and parts reports, builds and opens again; after each step, see ``check``."""

    def __init__(self):
        super().__init__()
        self.home = TemporaryDirectory()
        self.folder = Path(self.home.name)
        self.links, self.index = set(), None

    @initialize(count=st.integers(1, 6))
    def build(self, count):
        reports = [some_report(number, product="Mail") for number in range(count)]
        fill(self.folder, as_corpus(reports), READER)
        self.index = open_folder(self.folder, READER)
        self.reports = {one.issue_id: one for one in reports}

    @rule(reports=st.lists(some_reports, min_size=1, max_size=4))
    def add(self, reports):
        wanted = {one.issue_id: one for one in reports}
        said = self.index.add(reports)
        assert said == {
            one: "added" if one not in self.reports else "unchanged" if self.reports[one] == report else "updated"
            for one, report in wanted.items()
        }
        self.reports |= wanted

    @rule(one=some_ids)
    def delete(self, one):
        assert self.index.delete(one) == (self.reports.pop(one, None) is not None)

    @rule(one=some_ids, other=some_ids, source=st.sampled_from(["github", "triager"]))
    def link(self, one, other, source):
        if one != other and {one, other} <= self.reports.keys():
            self.index.link(one, other, source)
            self.links.add((one, other, source))

    @rule(one=some_ids, other=some_ids, source=st.sampled_from([None, "github", "triager"]))
    def unlink(self, one, other, source):
        gone = {link for link in self.links if {one, other} == set(link[:2]) and source in (None, link[2])}
        assert self.index.unlink(one, other, source) == bool(gone)
        self.links -= gone

    @rule()
    def start_again(self):
        self.index.close()
        self.index = open_folder(self.folder, READER)

    @rule(
        reports=st.lists(some_reports, max_size=5, unique_by=lambda one: one.issue_id), key=st.sampled_from(["a", "b"])
    )
    def follow_an_export(self, reports, key):
        fill(self.folder, as_corpus(sorted(reports, key=lambda one: one.created_at)), READER, key)
        self.reports = {one.issue_id: one for one in reports}

    @rule(one=some_reports)
    def another_process_adds(self, one):
        other = open_folder(self.folder, READER)
        other.add([one])
        other.close()
        self.reports[one.issue_id] = one

    @invariant()
    def as_after_a_restart(self):
        if self.index is not None:
            check(self.index, READER, self.reports, self.links)

    def teardown(self):
        if self.index is not None:
            self.index.close()
        self.home.cleanup()


def test_any_history_gives_the_answers_of_what_is_stored(monkeypatch):
    plain = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
    plain["phases"] = [Phase.explicit, Phase.generate]  # Phase.shrink makes a failing history shorter, in minutes
    monkeypatch.setattr("gedbd.retrieval.inverted_index.TAIL", 3)  # so that parts of postings are joined now and then
    run_state_machine_as_test(Machine, settings=settings(max_examples=12, stateful_step_count=25, **plain))
