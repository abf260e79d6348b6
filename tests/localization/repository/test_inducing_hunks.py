"""Hunks that added a line which a fix removes."""

import pandas as pd

from gedbd.corpora.relevance import Links
from gedbd.localization.repository.change_tables import change_tables
from gedbd.localization.repository.commits import Commit, FileChange, Hunk
from gedbd.localization.repository.inducing import HUNK_SOURCE, link_hunks

FIXED_AT = pd.Timestamp("2024-02-01", tz="UTC")


def hunk(*lines):
    return Hunk(1, 1, 1, 1, "", lines)


def commit(id_, day, files):
    changes = tuple(FileChange("M", path, path, False, False, hunks, False) for path, hunks in files.items())
    return Commit(id_, (), pd.Timestamp(f"2024-01-{day:02}", tz="UTC"), f"Change {id_}", changes, False)


def links(pairs, num_reports, num_documents):
    table = pd.DataFrame(pairs, columns=["query", "document"]).assign(source="table", made_at=FIXED_AT)
    return Links(table, num_reports, num_documents)


def found(fix, files=((0, 0),), reports=1):
    """The linked hunks of two files of one commit, which have three and one hunks, for a fix of them."""
    first = [hunk("+  int total = 0;"), hunk("+}", "+return;"), hunk("+ // total of all", "+total = total + 1;")]
    tables = change_tables(
        "demo",
        [commit("a", 1, {"src/A.java": tuple(first), "B.java": (hunk("+int total = 0;"),)}), commit("f", 9, fix)],
        10_000,
    )
    made, warnings = link_hunks(links([(0, 1)], reports, 2), links(files, reports, len(tables.files)), tables)
    return made, warnings


def test_a_hunk_that_added_a_line_which_the_fix_removes_is_linked():
    made, warnings = found({"src/A.java": (hunk("-int total = 0;", "-}", "+long total = 0;"),)})
    assert made.pairs.tolist() == [[0], [0]]
    assert made.table[["source", "made_at"]].to_numpy().tolist() == [[HUNK_SOURCE, FIXED_AT]]
    assert warnings[0].startswith("reports with inducing files whose inducing hunks are found by equal lines: 1;")


def test_brackets_keywords_and_comments_link_nothing():
    made, warnings = found({"src/A.java": (hunk("-}", "-return;", "-// total of all"),)})
    assert len(made) == 0
    assert warnings[0].endswith("in between: 1")


def test_a_line_that_the_fix_adds_again_is_moved_and_not_removed():
    fix = {"src/A.java": (hunk("-int total = 0;"), hunk("+    int total = 0;", "-total = total + 1;"))}
    assert found(fix)[0].pairs.tolist() == [[0], [2]]


def test_another_file_links_nothing_but_one_of_the_same_name_that_was_moved_does():
    assert len(found({"src/C.java": (hunk("-int total = 0;"),)})[0]) == 0
    assert found({"lib/A.java": (hunk("-int total = 0;"),)})[0].pairs.tolist() == [[0], [0]]
    both = {"lib/A.java": (hunk("-int total = 0;"),), "src/A.java": (hunk("-total = total + 1;"),)}
    assert found(both)[0].pairs.tolist() == [[0], [2]]


def test_only_files_that_the_data_names_are_searched():
    fix = {"B.java": (hunk("-int total = 0;"),)}
    assert len(found(fix)[0]) == 0
    assert found(fix, files=((0, 0), (0, 1)))[0].pairs.tolist() == [[0], [3]]


def test_a_report_without_a_fix_among_the_changes_has_no_hunks():
    made, warnings = found({"src/A.java": (hunk("-int total = 0;"),)}, files=((1, 0),), reports=2)
    assert len(made) == 0
    assert warnings[0].endswith("in between: 1")
