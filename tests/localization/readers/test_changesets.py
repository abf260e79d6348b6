import gzip
import json
import lzma
from pathlib import Path

import pytest

from gedbd.corpora.statistics import describe_changes
from gedbd.localization.readers.changesets import read_localization

SHARED = Path(__file__).parents[4] / "shared" / "data" / "localization"
DIFF = "\ndiff --git a/A.java b/A.java\n+++ b/A.java\n@@ -1 +1 @@\n-old\n+new\ndiff --git a/B.java b/B.java\n+++ b/B.j"
WHOLE = DIFF[: DIFF.index("diff --git a/B")]
BUGS = """\
bug_id,summary,description,report_time,status,fix_commit,fix_commit_full
7,Later,,2020-03-01 10:00:00,resolved fixed,cccc3333,cccc33330000
5,Earlier,It fails.,2020-01-01 10:00:00,closed wontfix,dddd4444,
6,Elsewhere,,2020-02-01 10:00:00,new,eeee5555,
"""
INDUCING = """\
bug_id,fix_commit,inducing_commit,inducing_time,lines,files
7,cccc33330000,aaaa11110000,2019-01-01,3,A.java;gone.java
7,cccc33330000,bbbb22220000,2019-01-02,1,B.java
5,dddd44440000,aaaa1111,2019-01-01,1,A.java
5,dddd44440000,ffff66660000,2019-01-01,1,A.java
99,x,aaaa11110000,2019-01-01,1,A.java
"""


def changeset(id_, date, diff=DIFF, **more):
    files = ["A.java", "B.java", "C.java"]
    common = {"parents": [], "message": f"Change {id_}\n\nWhy.", "files": files, "truncated": True}
    return {"commit": id_, "commit_date": date, "diff": diff} | common | more


CHANGESETS = [
    changeset("dddd44440000", "2020-03-03T00:00:00+01:00", WHOLE, truncated=False),
    changeset("cccc33330000", "2020-03-02T00:00:00+00:00"),
    changeset("bbbb22220000", "2019-01-01T00:00:00+00:00", parents=["aaaa11110000"]),
    changeset("aaaa11110000", "2019-01-02T00:00:00+00:00", files=["A.java", "B.java"]),
]


def write(folder, bugs=BUGS, changesets=CHANGESETS, inducing=INDUCING):
    (folder / "bugs.csv").write_text(bugs)
    with lzma.open(folder / "changesets.jsonl.xz", "wt") as file:
        file.writelines(record if isinstance(record, str) else f"{json.dumps(record)}\n" for record in changesets)
    with gzip.open(folder / "inducing.csv.gz", "wt") as file:
        file.write(inducing)
    return str(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return read_localization(write(tmp_path_factory.mktemp("demo")), name="demo")


def test_reports_are_in_chronological_order_and_links_are_rows_of_commits_and_files(corpus):
    assert corpus.reports.reports["id"].tolist() == ["5", "6", "7"]
    assert corpus.reports.reports["status"].tolist() == ["closed", "new", "resolved"]
    assert corpus.reports.reports["resolution"].tolist() == ["wontfix", "", "fixed"]
    assert corpus.reports.group.tolist() == [0, 1, 2]
    assert corpus.fixing.pairs.tolist() == [[0, 2], [3, 2]]
    assert corpus.inducing["commit"].pairs.tolist() == [[0, 2, 2], [0, 0, 1]]
    assert corpus.inducing["file"].pairs.tolist() == [[0, 2, 2], [0, 0, 3]]
    assert set(corpus.inducing) == {"commit", "file", "hunk"}
    assert len(corpus.inducing["hunk"]) == 0  # "old" and "new" are too short to tell a line by
    assert corpus.inducing["commit"].table["made_at"][1] == corpus.commits.table["created_at"][2]


def test_changesets_are_read_oldest_first_and_none_comes_before_its_parent(corpus):
    table = corpus.commits.table
    assert table["id"].str[:4].tolist() == ["aaaa", "bbbb", "cccc", "dddd"]
    assert table["created_at"].dt.strftime("%Y-%m-%dT%H").tolist() == [
        "2019-01-02T00",
        "2019-01-02T00",
        "2020-03-02T00",
        "2020-03-02T23",
    ]
    assert table["title"][0] == "Change aaaa11110000"
    assert table["num_files"].tolist() == [2, 3, 3, 3]
    assert corpus.hunks.ids.str[:4].tolist() == ["aaaa", "bbbb", "cccc", "dddd"]


def test_what_is_dropped_is_counted(corpus):
    assert corpus.warnings[1:] == (
        "commits dated before their parent, given the date of the parent: 1",
        "files missing from a complete diff, kept without hunks: 2",
        "commits with files or lines left out: 3",
        "files without a diff, as the commit was cut before them: 5",
        "reports whose fix commit is not among the changesets: 1",
        "files of inducing commits that are not among the changed files, dropped: 1",
        "inducing commits with an unknown changeset, dropped: 1",
        "inducing commits with an unknown report, dropped: 1",
        "reports with inducing files whose inducing hunks are found by equal lines: 0; not found, as diffs were cut or"
        " lines were changed in between: 2",
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"bugs": "bug_id,summary\n1,x\n"}, "bugs.csv, row 1: no column 'report_time'"),
        ({"bugs": BUGS.replace("2020-03-01", "soon")}, "bugs.csv, row 2, column 'report_time': unreadable date"),
        ({"bugs": BUGS.replace("5,Ear", "7,Ear")}, "rows 2 and 3, column 'bug_id': the id '7' occurs twice"),
        ({"changesets": [changeset("a", "2020", files=[1])]}, "row 1: 'files' must be a list of strings"),
        ({"changesets": [CHANGESETS[0], "{\n"]}, "row 2: not readable as JSON"),
        ({"changesets": CHANGESETS[:1] * 2}, "row 1: the commit dddd44440000 occurs twice"),
        ({"changesets": [changeset("a:b", "2020")]}, "row 1: 'commit' must be the id of a commit"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, damage, message):
    with pytest.raises(ValueError, match=message):
        read_localization(write(tmp_path, **damage))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")
@pytest.mark.parametrize(
    ("name", "reports", "commits", "fixed", "induced", "links", "ends"),
    [
        ("aspectj", 593, 6149, 593, 381, (786, 907), ("11280", "423257", "c330028", "3030eb6")),
        ("tomcat", 1056, 9002, 1055, 730, (1443, 1564), ("10526", "56029", "a84fabc", "304ebf3")),
    ],
)
def test_published_data_have_their_counts(name, reports, commits, fixed, induced, links, ends):
    corpus = read_localization(str(SHARED / name))
    counts = describe_changes(corpus)
    assert (counts["reports"], counts["commits"]) == (reports, commits)
    assert (counts["reports with a fix"], counts["reports with an inducing commit"]) == (fixed, induced)
    assert (counts["inducing links: commit"], counts["inducing links: file"]) == links
    ids = [corpus.reports.documents.ids.iloc[row] for row in (0, -1)]
    assert (*ids, *(corpus.commits.ids.iloc[row][:7] for row in (0, -1))) == ends
    # One report of Tomcat names only an inducing commit that is not among the changesets.
    assert ("inducing commits with an unknown changeset, dropped: 4" in corpus.warnings) == (name == "tomcat")
