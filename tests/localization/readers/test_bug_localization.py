"""Each published format with made-up reports, alone and with a small repository; the expectations are made by hand."""

import gzip
import json

import pandas as pd
import pytest
from git_repository import write_history
from small_history import linked

from gedbd.corpora.corpus import FixedReports
from gedbd.corpora.statistics import describe_changes
from gedbd.localization.readers.bug_localization import read_bug_localization, split_paths
from gedbd.localization.readers.git import read_git

PARSER, PRINTER, WIDGET = "src/org/demo/Parser.java", "src/org/demo/Printer.java", "Demo UI/org/demo/Widget.java"
# Message, day of 2020, and the content of files.
HISTORY = [
    ("Begin", "01-01", {PARSER: "int a = 1;\n", PRINTER: "int b = 1;\n", WIDGET: "int c = 1;\n"}),
    ("Count from zero", "01-10", {PARSER: "int a = 0;\n"}),
    ("Print less", "01-20", {PRINTER: "int b = 0;\n"}),
    ("Repair the parser", "03-01", {PARSER: "int a = 2;\n", "notes.txt": "one\n"}),
    ("Repair the printer", "03-02", {PRINTER: "int b = 2;\n"}),
]
TIME = 1_580_601_600  # 2020-02-02T00:00:00Z
HEADER = "id,bug_id,summary,description,report_time,report_timestamp,status,commit,commit_timestamp,files,"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A bare repository, and the ids of its commits, the first one first."""
    folder = tmp_path_factory.mktemp("clone") / "demo.git"
    return str(folder), write_history(folder, HISTORY)


@pytest.fixture
def read(tmp_path):
    """Writes a file and reads it."""

    def write(content, name="demo.xml"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_bug_localization(str(tmp_path / name))

    return write


def table_xml(*rows):
    """As phpMyAdmin exports a table."""
    parts = [
        '<table name="demo">' + "".join(f'<column name="{name}">{value}</column>' for name, value in row.items())
        for row in rows
    ]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<pma_xml_export version="1.0" xmlns:pma="http://example.org/">'
        '<pma:structure_schemas><pma:table name="demo">CREATE TABLE</pma:table></pma:structure_schemas>'
        f'<database name="bugs">{"".join(f"{part}</table>" for part in parts)}</database></pma_xml_export>'
    )


def row(bug_id, commit="NULL", files="", **more):
    usual = {"id": "1", "bug_id": bug_id, "summary": f"Bug {bug_id} It fails", "description": "NULL"}
    times = {"report_time": "2020-02-01 19:00:00", "report_timestamp": str(TIME), "status": "resolved fixed"}
    return {**usual, **times, "commit": commit, "commit_timestamp": "0", "files": files, "result": f"3:{files}", **more}


def bug(id_, files=(), extra="", opened="2020-2-2 00:00:00"):
    named = "".join(f"<file>{file}</file>" for file in files)
    return (
        f'<bug id="{id_}" opendate="{opened}" fixdate="2020-03-01 10:00:00" resolution="Fixed"><buginformation>'
        "<summary>It &amp;quot;fails&amp;quot;</summary><description>a &amp;lt; b</description><version>1.0</version>"
        f"</buginformation><fixedFiles>{named}</fixedFiles>{extra}</bug>"
    )


def bugs_xml(*bugs):
    declaration = '<?xml version = "1.0" encoding = "ISO-8859-1" ?>\n\n'
    return f'{declaration}<bugrepository name="Demo">{"".join(bugs)}</bugrepository>'


def patch(path, old=None):
    names = f"rename from {old}\nrename to {path}\n" if old else ""
    lines = f"--- a/{old or path}\n+++ b/{path}\n@@ -1 +1 @@\n-int a = 0;\n+int a = 2;\n"
    return f"diff --git a/{old or path} b/{path}\n{names}{lines}"


ADDED = "diff --git a/New.java b/New.java\nnew file mode 100644\n--- /dev/null\n+++ b/New.java\n@@ -0,0 +1 @@\n+x\n"


def instance(id_, base, changes, **more):
    usual = {"repo": "demo/demo", "instance_id": id_, "base_commit": base, "hints_text": "Fixed by #7."}
    texts = {"problem_statement": "It fails\n\nAlways.", "test_patch": patch("test/ParserTest.java"), "patch": changes}
    return json.dumps({**usual, **texts, "created_at": "2020-05-01T00:00:00Z", "FAIL_TO_PASS": "[]"} | more)


def test_tables_of_ye_et_al_name_short_commits(read, clone):
    folder, ids = clone
    reports = read(
        table_xml(
            row("8", ids[4][:7], PRINTER, report_timestamp=str(TIME + 1)),
            row("7", ids[3][:7], PARSER),
            row("9", "fffffff", f"2:{WIDGET} 11:{PARSER}", report_timestamp=str(TIME + 2)),
        )
    )
    assert isinstance(reports, FixedReports)
    assert reports.reports["id"].tolist() == ["7", "8", "9"]
    assert reports.reports["title"].tolist() == ["It fails"] * 3
    assert reports.reports["description"].tolist() == [""] * 3
    # The time without a zone is not read where there is one in seconds.
    assert reports.reports["created_at"][0] == pd.Timestamp("2020-02-02", tz="UTC")
    assert reports.reports["resolution"].tolist() == ["fixed"] * 3
    corpus = read_git(folder, reports=reports, suffixes=[".java"])
    assert linked(corpus.fixing, corpus.commits) == [(0, ids[3]), (1, ids[4])]
    assert set(corpus.fixing.table["source"]) == {"table"}
    assert linked(corpus.inducing["commit"], corpus.commits) == [(0, ids[1]), (1, ids[2])]
    assert corpus.fixed_paths == {2: (WIDGET, PARSER)}  # of the report whose commit the clone lacks
    assert "fixes of the table that name a commit that the history lacks: 1, dropped" in corpus.warnings
    assert describe_changes(corpus)["reports with fixed files but no commit"] == 1


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
def test_tables_of_ye_et_al_are_read_from_csv_files(read, separator):
    header = HEADER.replace(",", separator)  # the last column, of ranks, has no name
    lines = [
        "1,7,Bug 7 No end,It fails.,2/1/2020 19:00,1580601600,new,abc1234,1,A.java,1:A.java",
        "2,8,Bug 80 fails,,2020-02-03 10:00:00,,new,abc1235,1,a/B.java c d/E.java,",
    ]
    text = "\n".join([header, *(line.replace(",", separator) for line in lines)])
    reports = read(text, "demo.txt")
    assert reports.reports["title"].tolist() == ["No end", "Bug 80 fails"]
    dates = [pd.Timestamp("2020-02-02", tz="UTC"), pd.Timestamp("2020-02-03T10:00", tz="UTC")]
    assert reports.reports["created_at"].tolist() == dates
    expected = [
        ("7", "abc1234", "", ""),
        ("7", "", "A.java", ""),
        ("8", "abc1235", "", ""),
        ("8", "", "a/B.java", ""),
        ("8", "", "c d/E.java", ""),
    ]
    assert list(reports.fixes.itertuples(index=False, name=None)) == expected


def test_rows_of_one_report_are_taken_together(read):
    reports = read(table_xml(row("7", "abc1234", "A.java"), row("7", "abc1235", "A.java B.java")))
    assert len(reports) == 1
    assert reports.fixes["fix_commit"].tolist() == ["abc1234", "abc1235", "", ""]
    assert "rows that repeat a report, with merged fixes: 1" in reports.warnings


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ("A.java", ["A.java"]),
        ("1:a/B.java 22:a/C.java", ["a/B.java", "a/C.java"]),
        ("x.y/Demo UI/a/B.java  Demo  UI/C.java", ["x.y/Demo UI/a/B.java", "Demo UI/C.java"]),
        ("a/b.py c/d.txt Makefile", ["a/b.py", "c/d.txt", "Makefile"]),
        (" ", []),
    ],
)
def test_paths_with_blanks_are_split(written, paths):
    assert split_paths(written) == paths


def test_bugs_of_blia_name_classes_or_paths(read, clone):
    reports = read(
        bugs_xml(
            bug("9", ["org.demo.Nothing.java"], opened="2020-02-04 00:00:00"),
            bug("7", ["org.demo.Parser.java", "trunk/modules/src/org/demo/Printer.java"]),
            bug("8", ["org/demo/Widget.java", "Gone.java"], opened="2020-02-03 00:00:00"),
            bug("10", opened="2020-02-05 00:00:00"),
        )
    )
    assert reports.reports["title"][0] == 'It "fails"'
    assert reports.reports["description"][0] == "a < b"
    assert "reports without a fixing commit or a fixed file in the data: 1" in reports.warnings
    corpus = read_git(clone[0], reports=reports)
    assert corpus.fixed_paths == {0: (PARSER, PRINTER), 1: (WIDGET,)}
    assert len(corpus.fixing) == 0
    assert corpus.inducing == {}
    assert "fixed files that the history lacks, dropped: 2" in corpus.warnings
    assert "reports whose fix names no file of the history: 1" in corpus.warnings


def test_extended_bugs_of_blia_name_commits(read, clone):
    folder, ids = clone
    commits = f'<fixedCommits><commit id="{ids[3]}" author="a"><file name="{PARSER}"/></commit></fixedCommits>'
    corpus = read_git(folder, reports=read(bugs_xml(bug("7", extra=commits))))
    assert linked(corpus.fixing, corpus.commits) == [(0, ids[3])]
    assert corpus.fixed_paths == {}


def test_instances_of_swe_bench_are_dated_by_their_base_commit(read, clone):
    folder, ids = clone
    lines = [
        instance("demo__demo-2", ids[3], patch(PRINTER) + ADDED),
        instance("demo__demo-1", ids[1], patch("src/org/demo/Moved.java", PARSER)),
        instance("other__other-1", "f" * 40, patch("a.py")),
    ]
    reports = read("\n".join(lines) + "\n", "demo.jsonl")
    assert reports.reports["title"].tolist() == ["It fails"] * 3
    assert reports.reports["description"].tolist() == ["Always."] * 3
    assert reports.fixes["path"].tolist() == [PRINTER, PARSER, "a.py"]
    corpus = read_git(folder, reports=reports)
    assert corpus.reports.documents.ids.tolist() == ["demo__demo-1", "demo__demo-2"]
    dates = [pd.Timestamp("2020-01-10T12:00:01", tz="UTC"), pd.Timestamp("2020-03-01T12:00:01", tz="UTC")]
    assert corpus.reports.reports["created_at"].tolist() == dates
    assert corpus.fixed_paths == {0: (PARSER,), 1: (PRINTER,)}
    assert "reports whose base commit is not in the history: 1, left out" in corpus.warnings
    assert not any("report" in warning and "unknown" in warning for warning in corpus.warnings)
    as_list = read(f"[{','.join(lines)}]", "demo.json")
    assert as_list.fixes.equals(reports.fixes)


def test_a_clone_of_another_project_is_refused(read, clone):
    swe = read(instance("a__a-1", "f" * 40, patch("a.py")), "demo.jsonl")
    with pytest.raises(ValueError, match=r"the history has no base commit of any report, such as f{40} of a__a-1"):
        read_git(clone[0], reports=swe)
    blia = read(bugs_xml(bug("7", ["org.other.Thing.java"])))
    with pytest.raises(ValueError, match="is it a clone of that project"):
        read_git(clone[0], reports=blia)


def test_messages_and_tables_come_before_what_the_data_says(read, clone, tmp_path):
    folder, ids = clone
    reports = read(bugs_xml(bug("7", ["org.demo.Widget.java"]), bug("8")))
    with pytest.raises(ValueError, match="no commit message refers to any of the 2 reports, such as 7"):
        read_git(folder, reports=reports, fix_patterns=[r"never (?P<ids>\d+)"])
    (tmp_path / "fixes.csv").write_text(f"bug_id,fix_commit,path\n7,{ids[3]},\n8,,org/demo/Printer.java\n99,,A.java\n")
    corpus = read_git(folder, reports=reports, fixes=str(tmp_path / "fixes.csv"))
    assert linked(corpus.fixing, corpus.commits) == [(0, ids[3])]
    assert corpus.fixed_paths == {1: (PRINTER,)}
    assert "fixes of the table that name an unknown report: 1, dropped" in corpus.warnings


def test_packed_files_and_older_encodings_are_read(read):
    text = bugs_xml(bug("7", ["A.java"]))
    assert read(gzip.compress(text.encode()), "demo.xml.gz").fixes["path"].tolist() == ["A.java"]
    older = read(text.replace("It &amp;", "Größe\x1b &amp;").encode("latin-1"))
    assert older.reports["title"][0] == 'Größe\ufffd "fails"'
    told = "characters that are not ISO-8859-1 or not allowed in XML: 1, replaced by U+FFFD"
    assert told in older.warnings
    utf16 = text.replace(' encoding = "ISO-8859-1"', "").encode("utf-16")
    assert len(read(utf16)) == 1


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (bugs_xml(bug("7"))[:-30], "demo.xml", r"demo\.xml, line \d+.*was truncated"),
        (BOMB + "<bugrepository/>", "demo.xml", "a document type declaration .* is not allowed"),
        ("<html><body/></html>", "demo.xml", "there is neither <bugrepository> nor <table> with columns"),
        ('<bugrepository><bug id="7"/></bugrepository>', "demo.xml", "row 1: <bug> has no <buginformation>"),
        (bugs_xml(bug("7"), bug("")), "demo.xml", "row 2: the report has no id"),
        (table_xml({"bug_id": "7", "summary": "x", "files": ""}), "demo.xml", "row 1: there is no column 'commit'"),
        ("bug_id,summary,commit,files\n7,x,abc1,A.java\n", "demo.csv", "row 2: there is no column 'report_timestamp'"),
        ("Issue_id,Title\n7,x\n", "demo.csv", "not a known data set of bug localization; expected: XML with"),
        (instance("a-1", "f", "no patch"), "demo.jsonl", "row 1: 'patch' has no line that begins with 'diff --git'"),
    ],
)
def test_other_files_are_refused_in_one_line(read, content, name, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(content, name)
    assert "\n" not in str(raised.value)
