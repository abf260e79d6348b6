"""Hunks that added a line which a fix removes."""

from small_history import DAY, START, changed, commit, hunk, links, tables

from gedbd.localization.repository.inducing import HUNK_SOURCE, link_hunks

FIXED_AT = START + DAY * 31


def lines(*texts):
    return hunk(1, list(texts))


def found(fix, files=((0, 0),), reports=1):
    """The linked hunks of two files of one commit, which have three and one hunks, for a fix of them."""
    first = [lines("+  int total = 0;"), lines("+}", "+return;"), lines("+ // total of all", "+total = total + 1;")]
    added = [changed("src/A.java", *first), changed("B.java", lines("+int total = 0;"))]
    built = tables(
        [commit(1, "Add", *added), commit(9, "Fix", *(changed(path, *hunks) for path, hunks in fix.items()))]
    )
    fixing, changing = links([(0, 1)], reports, 2, FIXED_AT), links(files, reports, len(built.files), FIXED_AT)
    return link_hunks(fixing, changing, built)


def test_a_hunk_that_added_a_line_which_the_fix_removes_is_linked():
    made, warnings = found({"src/A.java": (lines("-int total = 0;", "-}", "+long total = 0;"),)})
    assert made.pairs.tolist() == [[0], [0]]
    assert made.table[["source", "made_at"]].to_numpy().tolist() == [[HUNK_SOURCE, FIXED_AT]]
    assert warnings[0].startswith("reports with inducing files whose inducing hunks are found by equal lines: 1;")


def test_what_the_fix_does_not_remove_or_change_links_nothing():
    made, warnings = found({"src/A.java": (lines("-}", "-return;", "-// total of all"),)})
    assert len(made) == 0
    assert warnings[0].endswith("in between: 1")
    made, warnings = found({"src/A.java": (lines("-int total = 0;"),)}, files=((1, 0),), reports=2)
    assert len(made) == 0
    assert warnings[0].endswith("in between: 1")


def test_a_line_that_the_fix_adds_again_is_moved_and_not_removed():
    fix = {"src/A.java": (lines("-int total = 0;"), lines("+    int total = 0;", "-total = total + 1;"))}
    assert found(fix)[0].pairs.tolist() == [[0], [2]]


def test_only_files_of_the_same_name_that_the_data_names_are_searched():
    assert len(found({"src/C.java": (lines("-int total = 0;"),)})[0]) == 0
    assert found({"lib/A.java": (lines("-int total = 0;"),)})[0].pairs.tolist() == [[0], [0]]
    both = {"lib/A.java": (lines("-int total = 0;"),), "src/A.java": (lines("-total = total + 1;"),)}
    assert found(both)[0].pairs.tolist() == [[0], [2]]
    fix = {"B.java": (lines("-int total = 0;"),)}
    assert len(found(fix)[0]) == 0
    assert found(fix, files=((0, 0), (0, 1)))[0].pairs.tolist() == [[0], [3]]
