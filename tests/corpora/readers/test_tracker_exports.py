"""What the readers of all trackers have in common: links, dates, fields at creation, addresses and errors."""

import json

import pandas as pd
import pytest
from tracker_records import (
    RECORDS,
    bugzilla,
    changed,
    edited,
    event,
    github,
    gitlab,
    jira,
    moment,
    note,
    read,
    said,
    tied,
)

TRACKERS = list(RECORDS)
NAMED_NOWHERE = "closed as duplicates, the original not recognised: 1 (first: "
API = "https://gitlab.example.org/api/v4/projects/{}/issues/1"
GITLAB_MARK = note("marked this issue as a duplicate of #1")
BUGZILLA_MARK = "*** This bug has been marked as a duplicate of bug {} ***"
BUGZILLA_CLOSED = {"status": "RESOLVED", "resolution": "DUPLICATE"}
GITHUB_CLOSED = {"state": "closed", "state_reason": "duplicate"}
JIRA_CLOSED = {"resolution": {"name": "Duplicate"}}
DUPLICATE = {"name": "Duplicate", "inward": "is duplicated by", "outward": "duplicates"}
CLONERS = {"name": "Cloners", "inward": "is cloned by", "outward": "clones"}
LINKED = {
    "github": (
        [
            github(1),
            github(2, comments=said("Duplicate of #1")),
            github(3, comments=said("Possible duplicate of #1")),
            github(4, comments=said("Possible duplicate of #2"), **GITHUB_CLOSED),
            github(5, comments=said("Duplicate of #1", login="helper[bot]")),
            github(6, comments=said("Duplicate of #1", "Sorry, it is not a duplicate of #1")),
            github(7, **GITHUB_CLOSED),
            github(8, state="closed", labels=["status: duplicate"], comments=said("Looks like a dup of #7")),
            github(9, state="closed", labels=["possible duplicate"], comments=said("Looks like a dup of #7")),
            github(10, comments=said("Duplicate of #99")),
        ],
        {("2", "1", "comment"), ("4", "2", "state reason"), ("8", "7", "comment")},
        [f"{NAMED_NOWHERE}7)", "not in the file: 1, dropped"],
    ),
    "gitlab": (
        [
            gitlab(1),
            gitlab(2, GITLAB_MARK, state="closed"),
            gitlab(3, state="closed", _links={"closed_as_duplicate_of": API.format(4)}),
            gitlab(4, state="closed", _links={"closed_as_duplicate_of": API.format(5)}),
            gitlab(5, note("Duplicate of group/sub/project#1", system=False)),
            gitlab(6, note("Duplicate of project#1", system=False)),
            gitlab(7, note("Duplicate of group/other#1", system=False)),
            gitlab(8, note("Duplicate of #1", system=False, username="project_4_bot")),
            gitlab(9, GITLAB_MARK, note("reopened")),
            gitlab(10, note("Possible duplicate of #1", system=False), GITLAB_MARK, state="closed"),
            gitlab(11, note("mentioned in issue #5"), note("Same as #1", system=False), state="closed", labels=["dup"]),
        ],
        {
            ("2", "1", "system note"),
            ("3", "1", "closed as duplicate"),
            ("5", "1", "comment"),
            ("6", "1", "comment"),
            ("10", "1", "system note"),
            ("11", "1", "comment"),
        },
        ["another repository or project, dropped: 2 (first: 4)"],
    ),
    "jira": (
        [
            jira(1, issuelinks=[{"type": DUPLICATE, "inwardIssue": {"key": "ABC-2"}}]),
            jira(2, issuelinks=[{"type": CLONERS, "outwardIssue": {"key": "ABC-3"}}]),
            jira(3, issuelinks=[{"type": DUPLICATE, "outwardIssue": {"key": "ABC-4"}}], **JIRA_CLOSED),
            jira(4),
            jira(5, comment={"comments": [{"body": "This is a duplicate of ABC-1"}], "total": 3}, **JIRA_CLOSED),
            jira(6, **JIRA_CLOSED),
        ],
        {("ABC-1", "ABC-2", "issue link"), ("ABC-3", "ABC-4", "issue link"), ("ABC-5", "ABC-1", "comment")},
        [f"{NAMED_NOWHERE}ABC-6)", "comments are truncated in the export: 1 (first: ABC-5)"],
    ),
    "bugzilla": (
        [
            bugzilla(1, "It fails.", "*** Bug 2 has been marked as a duplicate of this bug. ***"),
            bugzilla(2, "Fails.", BUGZILLA_MARK.format(3), BUGZILLA_MARK.format(1), dupe_of=1, **BUGZILLA_CLOSED),
            bugzilla(3, "Other.", BUGZILLA_MARK.format(1)),
            bugzilla(4, "More.", BUGZILLA_MARK.format(1), BUGZILLA_MARK.format(3), **BUGZILLA_CLOSED),
            bugzilla(5, "Also.", "dup of bug 4"),
            bugzilla(6, "Duplicate of bug 1"),
            bugzilla(7, "x", "Duplicate of https://bugs.example.org/show_bug.cgi?id=1"),
            bugzilla(8, **BUGZILLA_CLOSED),
            bugzilla(9, "x", "Since the mend of bug 3", "Same as bug 4", dupe_of=1, **BUGZILLA_CLOSED),
        ],
        {("2", "1", "dupe_of"), ("4", "3", "comment"), ("5", "4", "comment"), ("9", "1", "dupe_of")},
        [f"{NAMED_NOWHERE}8)", "dropped: 1 (first: 7)"],
    ),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_links_have_the_source_that_names_them(tmp_path, tracker):
    records, links, warnings = LINKED[tracker]
    corpus = read(tracker, tmp_path, records)
    assert tied(corpus) == links
    assert all(any(part in warning for warning in corpus.warnings) for part in warnings)
    if tracker == "github":
        assert corpus.group.tolist() == [0, 0, 2, 0, 4, 5, 6, 6, 8, 9]


FIELDS = {
    "github": (github(1, labels=["bug", {"name": "area: map"}]), {"component": "map", "status": "open"}),
    "gitlab": (gitlab(1, labels=["bug", "component/map"]), {"component": "map", "status": "opened"}),
    "jira": (
        jira(1, attachment=[{"filename": name} for name in ("a.png", "log.txt", "b;c.png")]),
        {"product": "Alphabet", "component": "Map, Print", "version": "1.0", "os": "Linux", "priority": "Major"}
        | {"status": "Open", "resolution": "", "attachments": "ABC-1/a.png"},
    ),
    "bugzilla": (
        bugzilla(1, "text"),
        {"product": "Mail", "component": "Inbox", "version": "1", "os": "Linux", "priority": "P3", "status": "NEW"},
    ),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_fields(tmp_path, tracker):
    record, fields = FIELDS[tracker]
    corpus = read(tracker, tmp_path, [record])
    row = corpus.reports.iloc[0].to_dict()
    assert {field: row[field] for field in fields} == fields
    assert (row["title"], row["description"]) == ("title 1", "text")
    assert row["created_at"] == pd.Timestamp("2024-01-01 09:00" if tracker == "jira" else "2024-01-01", tz="UTC")
    assert any("name holds a semicolon" in warning for warning in corpus.warnings) == (tracker == "jira")


# Record, its fields at creation, and those of today.
RENAMED = note("changed title from **Map {-brok-} en** to **Map {+is slow wh+} en**")
AT_CREATION = {
    "github": (
        github(
            1,
            title="Map is slow on zoom",
            state="closed",
            state_reason="completed",
            labels=["area: zoom"],
            timeline=[
                event("labeled", "2024-01-01T00:00:02Z", label={"name": "area: map"}),
                event("renamed", 2, rename={"from": "it brakes", "to": "Map is slow"}),
                event("renamed", 3, rename={"from": "Map is slow", "to": "Map is slow on zoom"}),
                event("unlabeled", 4, label={"name": "area: map"}),
                event("labeled", "2024-01-04T00:00:01Z", label={"name": "area: zoom"}),
                event("closed", 5),
                event("commented", 6, body="Duplicate of #2", user={"login": "ann"}),
            ],
        ),
        {"title": "it brakes", "component": "map", "status": "open", "resolution": ""},
        {"title": "Map is slow on zoom", "component": "zoom", "status": "closed", "resolution": "completed"},
    ),
    "gitlab": (
        gitlab(1, RENAMED, note("closed"), title="Map is slow wh en", state="closed"),
        {"title": "Map brok en", "status": "opened"},
        {"title": "Map is slow wh en", "status": "closed"},
    ),
    "jira": (
        jira(
            1,
            changed(14, "resolution", None, "Fixed"),
            changed(13, "Component", None, "Print"),
            changed(12, "Component", "General", None),
            changed(12, "summary", "it brakes", "title 1"),
            changed(11, "Version", "0.9", None),
            changed(11, "Sprint", "1", "2"),
            resolution={"name": "Fixed"},
        ),
        {"title": "it brakes", "component": "Map, General", "version": "1.0, 0.9", "resolution": ""},
        {"title": "title 1", "component": "Map, Print", "version": "1.0", "resolution": "Fixed"},
    ),
    "bugzilla": (
        bugzilla(
            1,
            "x",
            status="RESOLVED",
            resolution="FIXED",
            cf_last_resolved="2024-02-04T00:00:00Z",
            history=[
                edited(21, "summary", "it brakes", "title 1"),
                edited(22, "component", "General", "Inbox"),
                edited(23, "cc", "", "bob"),
                edited(23, "status", "UNCONFIRMED", "NEW"),
                edited(24, "status", "NEW", "RESOLVED"),
                edited(24, "resolution", "", "FIXED"),
            ],
        ),
        # The date of resolution is not reset.
        {"title": "it brakes", "component": "General", "status": "UNCONFIRMED", "resolution": ""}
        | {"resolved_at": pd.Timestamp("2024-02-04", tz="UTC")},
        {"title": "title 1", "component": "Inbox", "status": "RESOLVED", "resolution": "FIXED"},
    ),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_fields_at_creation(tmp_path, tracker):
    record, created, today = AT_CREATION[tracker]
    records = [record, RECORDS[tracker](2)]
    for as_created, fields in ((True, created), (False, today)):
        corpus = read(tracker, tmp_path, records, as_created=as_created)
        row = corpus.reports.iloc[0].to_dict()
        assert {field: row[field] for field in fields} == fields
        told = [warning for warning in corpus.warnings if "history" in warning or "reset" in warning]
        expected = [
            "issues with title or fields reset to those at creation: 1",
            "issues without a history: 1, used as exported",
        ]
        assert told == (expected if as_created else [])


JIRA_LINK = [{"type": DUPLICATE, "outwardIssue": {"key": "ABC-1"}}]
# Records, their labels at creation, and when each link was made; None where that is unknown.
LABELLED = {
    "github": (
        [
            github(1, labels=["crash", "duplicate", "area: map", "a;b"])
            | {"timeline": [event("labeled", 2, label={"name": name}) for name in ("area: map", "a;b")]},
            github(2, **GITHUB_CLOSED)
            | {
                "timeline": [
                    event("closed", 3, state_reason="duplicate"),
                    event("reopened", 4),
                    event("closed", 5, state_reason="duplicate"),
                    event("commented", 2, body="Duplicate of #1"),
                ]
            },
        ],
        ["crash", ""],
        [5],
    ),
    "gitlab": (
        [
            gitlab(1, labels=["bug", "map"]),
            gitlab(2, note("marked this issue as a duplicate of #1", when=3), note("closed", when=3), state="closed"),
        ],
        ["bug;map", ""],
        [3],
    ),
    "jira": (
        [
            jira(1, labels=["one"]),
            jira(
                2,
                changed(3, "labels", "old both", "both new"),
                changed(4, "resolution", "", "Duplicate"),
                labels=["both", "new"],
                issuelinks=JIRA_LINK,
                **JIRA_CLOSED,
            ),
            jira(3, changed(4, "summary", "a", "b"), issuelinks=JIRA_LINK),
        ],
        ["one", "both;old", ""],
        [4, None],
    ),
    "bugzilla": (
        [
            bugzilla(1, keywords=["crash"]),
            bugzilla(2, keywords=["perf", "regression", "ui"], dupe_of=1, **BUGZILLA_CLOSED)
            | {
                "history": [
                    edited(3, "keywords", "crash", "perf, regression"),
                    edited(4, "resolution", "", "DUPLICATE"),
                ]
            },
        ],
        ["crash", "ui;crash"],
        [4],
    ),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_labels_at_creation_and_the_time_of_links(tmp_path, tracker):
    records, labels, days = LABELLED[tracker]
    corpus = read(tracker, tmp_path, records)
    assert corpus.reports["labels"].tolist() == labels
    assert corpus.links.table["made_at"].tolist() == [pd.NaT if when is None else moment(when) for when in days]
    if tracker == "github":
        today = read(tracker, tmp_path, records, as_created=False).reports
        assert today["labels"].tolist() == ["crash;area: map;a,b", ""]
        assert (corpus.reports["component"][0], today["component"][0]) == ("", "map")


RESOLVED = {
    "github": ("closed_at", {"state": "closed"}),
    "gitlab": ("closed_at", {"state": "closed"}),
    "jira": ("resolutiondate", {"resolution": {"name": "Fixed"}}),
    "bugzilla": ("cf_last_resolved", {"status": "RESOLVED", "resolution": "FIXED"}),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_dates_of_resolution(tmp_path, tracker):
    record = RECORDS[tracker]
    key, done = RESOLVED[tracker]
    reopened = {key: "2024-02-02T00:00:00Z"} if tracker == "bugzilla" else {key: None}  # which keeps its date
    records = [
        record(1, **{key: "2024-02-01T13:00:00+0100"}, **done),
        record(2, **reopened),
        record(3),
        record(4, **{key: "0001-01-01T00:00:00Z"}, **done),
        record(5, **{key: "2024-01-04T23:00:00Z"}, **done),
    ]
    corpus = read(tracker, tmp_path, records)
    first = pd.Timestamp("2024-02-01 12:00", tz="UTC")
    early = pd.Timestamp("2024-01-04 23:00", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [first, pd.NaT, pd.NaT, pd.NaT, early]
    outside = "dates outside the years 1970 to 2200: 1, treated as missing (first: "
    assert f"{outside}{tmp_path / 'export.json'}, record 4, {key!r})" in corpus.warnings
    assert "reports resolved before they were created: 1, kept (first: row 5)" in corpus.warnings
    assert "resolved_at" not in read(tracker, tmp_path, [record(1, **done)]).reports
    with pytest.raises(ValueError, match=f"record 1: {key!r}: unreadable date 'soon'"):
        read(tracker, tmp_path, [record(1, **{key: "soon"}, **done)])


GITHUB_API = "https://api.github.com/repos/owner/repo/issues/{}"
GITHUB_PAGE = "https://github.com/owner/repo/issues/{}"
JIRA_HOST = "https://issues.example.org/jira"
# Records, and the address of each; the last one of each tracker has none, or one that is not safe.
PAGES = {
    "github": (
        [
            github(1, url=GITHUB_API.format(1)),
            github(2, html_url=None, url=GITHUB_PAGE.format(2)),
            github(3, html_url=None, url=GITHUB_API.format(3)),
            github(4, html_url=None, url="https://ghe.example.org/api/v3/repos/owner/repo/issues/4"),
            github(5, html_url="javascript:alert(1)"),
        ],
        [GITHUB_PAGE.format(1), GITHUB_PAGE.format(2), "", "", ""],
    ),
    "gitlab": (
        [gitlab(1), gitlab(2, web_url=None, project_id=None)],
        ["https://gitlab.example.org/group/sub/project/-/issues/1", ""],
    ),
    "jira": (
        [
            jira(1) | {"self": f"{JIRA_HOST}/rest/api/2/issue/9"},
            jira(2) | {"self": "https://api.atlassian.com/ex/jira/11/rest/api/3/issue/9"},
            jira(3),
            jira(4) | {"self": "javascript:alert(1)/rest/api/2"},
        ],
        [f"{JIRA_HOST}/browse/ABC-1", "", "", ""],
    ),
    "bugzilla": (
        [bugzilla(1, web_url="https://a.org/show_bug.cgi?id=1"), bugzilla(2, url="https://reporters.example.org")],
        ["https://a.org/show_bug.cgi?id=1", ""],
    ),
}


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_page_of_an_issue(tmp_path, tracker):
    records, pages = PAGES[tracker]
    corpus = read(tracker, tmp_path, records)
    assert corpus.reports["url"].tolist() == pages
    unsafe = [warning for warning in corpus.warnings if warning.startswith("addresses of reports that are not http")]
    assert len(unsafe) == (tracker in {"github", "jira"})
    filled = read(tracker, tmp_path, records, url_template="https://b.org/{issue_id}").reports
    assert filled["url"].iloc[0] == pages[0]
    assert filled["url"].iloc[-1] == f"https://b.org/{filled['id'].iloc[-1]}"


def test_the_address_of_a_bugzilla_gives_those_of_its_bugs(tmp_path):
    records, _ = PAGES["bugzilla"]
    urls = read("bugzilla", tmp_path, records, base_url="https://b.org/bugzilla/").reports["url"]
    assert urls.tolist() == ["https://a.org/show_bug.cgi?id=1", "https://b.org/bugzilla/show_bug.cgi?id=2"]
    template = "https://c.org/{issue_id}"
    assert read("bugzilla", tmp_path, records, base_url="https://b.org", url_template=template).reports["url"][1] == (
        "https://c.org/2"
    )
    with pytest.raises(ValueError, match=r"^base_url=bugs must be an http or https address"):
        read("bugzilla", tmp_path, records, base_url="bugs")


@pytest.mark.parametrize(
    ("tracker", "more", "message"),
    [
        ("github", {"number": None}, "the issue has no 'number'"),
        ("github", {"number": "x"}, "'number' is 'x'; expected: a whole number"),
        ("github", {"title": 5}, "'title' is 5; expected: text"),
        ("github", {"comments": ["a"]}, "'comments' is 'a'; expected: a list of objects"),
        ("github", {"created_at": "yesterday"}, "'created_at': unreadable date 'yesterday'"),
        ("github", {"timeline": [{"event": "renamed", "created_at": "?"}]}, "'created_at': unreadable date"),
        ("gitlab", {"notes": {"a": 1}}, "'notes' is an object; expected: a list"),
        ("jira", {"created": "soon"}, "'created': unreadable date 'soon'"),
        ("jira", {"issuelinks": {"a": 1}}, "'issuelinks' is an object; expected: a list"),
        ("jira", {"description": 3}, "'description' is 3; expected: text"),
        ("bugzilla", {"creation_time": "soon"}, "'creation_time': unreadable date 'soon'"),
        ("bugzilla", {"dupe_of": "x"}, "'dupe_of' is 'x'; expected: a whole number"),
    ],
)
def test_a_bad_record_is_named(tmp_path, tracker, more, message):
    record = RECORDS[tracker]
    with pytest.raises(ValueError, match=message) as raised:
        read(tracker, tmp_path, [record(1), record(2, **more)])
    assert str(raised.value).startswith(f"{tmp_path / 'export.json'}, record 2: ")


@pytest.mark.parametrize(
    ("tracker", "content", "message"),
    [
        ("github", '{"message": "Bad credentials", "status": "401"}', "error message of the server, 'Bad credentials'"),
        ("github", '{"errors": [{"message": "rate limit"}], "data": null}', "message of the server, 'rate limit'"),
        ("gitlab", '{"message": "401 Unauthorized"}', "an error message of the server, '401 Unauthorized'"),
        ("jira", '{"errorMessages": ["X does not exist"], "errors": {}}', "message of the server, 'X does not exist'"),
        ("bugzilla", '{"error": true, "message": "The API key is wrong"}', "of the server, 'The API key is wrong'"),
        ("bugzilla", '{"bugs": {"1": {"comments": []}}}', "only comments of bugs: set dataset.path="),
        ("bugzilla", '{"bugs": {"1": {}}}', "'bugs' is an object; a list of issues is expected"),
        ("jira", [{"key": "12", "fields": {"summary": "a"}}], "record 1: the issue key must be like ABC-12, not '12'"),
        ("github", [{"number": 1}], "record 1: the issue has no 'title'; gh issue list --json needs"),
        ("github", [github(1, pull_request={"url": "x"})], "no issue in the export, only 1 pull requests"),
        ("github", "[", r"export.json, line 1, column 2: the file ends in the middle of a record"),
        ("github", '[{"number": 1, "title": "a', r"line 1, column \d+: the file ends in the middle of a record"),
        ("github", '[{"number": 1,\n "title": oops}]', r"export.json, line 2, column 11: not readable as JSON"),
        ("github", "<html></html>", "line 1, column 1: this is a web page or XML, not JSON"),
        ("github", "", "export.json: no issue in the export; at least one is needed"),
        ("github", "[" * 100_000, "export.json: not readable as JSON"),
        ("github", "7", "export.json, record 1: '7' is not an issue; a JSON object is expected"),
        ("github", '{"a": 1}', "record 1: the issue has no 'number'"),
        ("github", '{"data": {"repository": null}}', "the object has no list of issues; its keys are repository"),
        (
            "github",
            f'[{{"number": 1, "title": "a", "more": {"[" * 100_000 + "]" * 100_000}}}]',
            r"(record 1: lists and objects are nested too deeply|not readable as JSON)",
        ),
    ],
)
def test_what_is_no_export_is_refused(tmp_path, tracker, content, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(tracker, tmp_path, content)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_export_of_another_tracker_is_recognised(tmp_path, tracker):
    for other in TRACKERS:
        if other != tracker:
            with pytest.raises(ValueError, match=f"record 1: this looks like a {other} export: set dataset={other}"):
                read(tracker, tmp_path, json.dumps([RECORDS[other](1)]))
