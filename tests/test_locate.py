"""The command that locates, as a person and as a program uses it, on repositories made by ``git fast-import``."""

import io
import json
import re
import subprocess
import sys

import pytest
from git_repository import FastImport, Repository, git
from rich.console import Console
from rich.text import Text
from run_commands import commands_in
from small_repository import make_repository

from gedbd.localization.locating import repository_index
from gedbd.localization.locating.answering import print_located
from gedbd.localization.locating.located_files import LocatedFile
from gedbd.localization.locating.repository_index import Located
from gedbd.triage.report_text import report_from_text

pytestmark = pytest.mark.integration

PARSER = b"class QuotedParser {\n    void parseQuoted() { delimiter(); }\n}\n"
REPORT = "Quoted values are cut: parseQuoted of QuotedParser drops the delimiter"
HOSTILE = b"\x1b[31m[bold]QuotedParser[/bold] \x1b]0;title\x07"
COMMITS = (
    (b"Begin the project", {"README": b"a project\n"}),
    (b"Parse quoted values", {"src/QuotedParser.java": PARSER}),
    (HOSTILE, {"src/[red]x.java": HOSTILE + b"\n" + b"x" * 3000 + b" QuotedParser\n"}),
    (b"Print tables", {"src/TablePrinter.java": b"class TablePrinter { }\n"}),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A work tree's bare repository of four commits, one of them with hostile texts, and an empty one."""
    folder = tmp_path_factory.mktemp("locate")
    Repository(folder / "project.git").add(*COMMITS)
    FastImport().write(folder / "empty.git")
    git("clone", "-q", "--depth=1", f"file://{folder}/project.git", folder / "shallow")
    return folder


@pytest.fixture
def run(made, monkeypatch):
    """Runs the command on the repository and gives what it prints, or its error."""
    monkeypatch.setenv("COLUMNS", "80")

    def through(*words, repo="project.git"):
        with commands_in(made) as command:
            try:
                return command("locate", f"repo={repo}", *words)
            except SystemExit as error:
                return str(error.code)

    return through


def test_people_read_a_line_for_each_file_place_and_commit(run):
    told = run(REPORT)
    lines = [re.sub("[0-9a-f]{10}", "ID", line) for line in told.splitlines()]
    assert lines[:4] == [
        REPORT,
        "",
        "  1 src/QuotedParser.java  named in the report; words: delimiter, parse, parsequoted, parser",
        "    2-2 parseQuoted              ID 2023-11-16 Parse quoted values",
    ]
    assert lines[5].startswith("  2 src/[red]x.java")
    heading = lines.index("Commits that may have introduced the bug")
    assert "  1 ID 2023-11-16 Parse quoted values" in lines[heading:]
    assert lines[-4:] == [
        "Ranked: 3 source files of ID, 4 of 4 commits.",
        "Read src/QuotedParser.java:2 first. The default ranker was not measured on this",
        "tracker (run gedbd locate-backtest); on two others, a fixed file was among the",
        "first 10 for 61% and 78% of the reports.",
    ]
    assert "delimiter();" not in told
    assert "ranked by" not in told
    assert "Thor" not in told
    # Texts of a repository steer neither terminal nor markup.
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "[bold]QuotedParser[/bold]" in told


def test_details_are_lines_of_code_reasons_and_hunks(run):
    told = run(REPORT, "details=true")
    files, _, told = told.partition("\nCommits that may have introduced the bug\n")
    assert "         2   void parseQuoted() { delimiter(); }\n" in files
    assert told.index("Parse quoted values") < told.index("Begin the project")
    assert "changes QuotedParser, named in the report" in told
    assert re.search(r"ranked\s+by .*\(\+\d", told)
    assert "    src/QuotedParser.java:1-3\n" in told
    assert "         2 +     void parseQuoted() { delimiter(); }\n" in told
    assert "src/[red]x.java:1-2" in told
    assert "\x1b" not in files + told
    assert "Thor" not in files + told


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns that the command prints its answer on, and warnings too."""
    shown = io.StringIO()
    console = Console(width=80, force_terminal=True, file=shown, highlight=False, color_system="standard")
    monkeypatch.setattr("gedbd.localization.locating.answering.open_console", lambda stderr=False: console)
    return shown


def test_lines_fit_a_terminal_and_shared_words_stand_out(run, terminal, tmp_path):
    run(REPORT, f"index={tmp_path}", "details=true")
    answer, _, warning = terminal.getvalue().partition("note: ")
    assert "\x1b[1;7;32mQuotedParser" in answer  # bold, reversed, green
    assert max(Text.from_ansi(line).cell_len for line in answer.splitlines()) <= 80
    assert "a line has 1,000 characters at most" in warning  # after the answer
    assert len(warning.splitlines()) == 1


@pytest.mark.parametrize("trace", ["", "\n\tat a.BarberReader.countBarber(BarberReader.java:3)" * 20])
def test_an_answer_is_short(run, terminal, tmp_path, trace):
    make_repository(tmp_path / "repo")
    run(f"{'The reader reads and loses the last line ' * 4}{trace}", repo=str(tmp_path / "repo"))
    lines = [Text.from_ansi(line).plain for line in terminal.getvalue().splitlines()]
    assert [line[:4] for line in lines].count("  5 ") == 2  # of five files and five commits
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


def test_a_long_path_is_whole_with_its_reasons_below():
    console = Console(width=80, force_terminal=True, file=io.StringIO(), color_system=None)
    path = f"src/{'long/' * 15}Parser.java"
    file = LocatedFile(path, 1, 0.0, 1.0, ("words: a, b", "often changed with Lexer.java (in 3 of 9 commits)"), {}, ())
    facts = {"num_ranked": 1, "num_commits": 1, "num_merges": 0, "statement": "Measured."}
    print_located(console, report_from_text("Title"), Located(files=(file,)), facts)
    shown = console.file.getvalue().splitlines()
    assert shown[2:4] == [f"  1 {path}", "    words: a, b; often changed with Lexer.java"]


def test_programs_read_json(run):
    (line,) = run(REPORT, "json=true", "top_k=1", "top_commits=2").splitlines()
    answer = json.loads(line)
    facts = {"repository", "commit", "num_commits", "num_merges", "num_ranked", "statement"}
    of_files = {"files_commit", "num_files", "skipped_files", "files"}
    assert set(answer) == {"query", *facts, *of_files, "changes"}
    assert (answer["files_commit"], answer["num_files"], answer["skipped_files"]) == (answer["commit"], 3, {})
    (file,) = answer["files"]
    names = {"path", "rank", "score", "probability", "explanation", "contributions", "places"}
    assert set(file) == names
    assert file["path"] == "src/QuotedParser.java"
    place, _ = file["places"]
    assert (place["start"], place["end"], place["header"]) == (2, 2, 2)
    assert [commit["created_at"] for commit in place["commits"]] == ["2023-11-16T22:13:20+00:00"]
    assert (answer["repository"], answer["num_commits"], answer["num_ranked"]) == ("project.git", 4, 4)
    assert len(answer["changes"]) == 2
    names = {"id", "rank", "score", "created_at", "title", "message", "num_files", "explanation"}
    assert set(answer["changes"][0]) == names | {"contributions", "hunks"}


def test_only_earlier_commits_are_ranked(run):
    answer = json.loads(run(REPORT, "json=true", "before=2023-11-17"))
    assert answer["num_ranked"] == 2
    assert answer["changes"][0]["title"] == "Parse quoted values"
    assert "no commit is older than the report" in run(REPORT, "before=2001-01-01")


@pytest.mark.parametrize(
    ("words", "repo", "told"),
    [
        ([], "project.git", "error: give exactly one of: a text in quotes"),
        (["crash"], "empty.git", "error: empty.git: the repository has no commits"),
        (["crash"], "shallow", "error: shallow: this is a shallow clone"),
        (["crash", "before=tomorrow"], "project.git", "error: before=tomorrow is not a date"),
        (["crash", "run=nowhere"], "project.git", "error: nowhere has no ranker.json"),
    ],
)
def test_a_mistake_is_told_in_one_line(run, words, repo, told):
    line = run(*words, repo=repo)
    assert line.startswith(told)
    assert len(line.splitlines()) == 1


def test_ctrl_c_ends_in_one_line(run, tmp_path, monkeypatch, capsys):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(repository_index, "_batches", pressed)
    assert run("crash", f"index={tmp_path}") == "130"
    assert capsys.readouterr().out.splitlines()[-1].startswith("interrupted; the index is kept")


def test_answering_imports_nothing_that_trains(made, tmp_path):
    words = ["gedbd", "locate", f"repo={made}/project.git", f"cache_dir={tmp_path}", "crash"]
    code = f"""
import sys
from gedbd.__main__ import main
for _ in range(2):
    sys.argv = {words!r}
    main()
print(*{{name.partition(".")[0] for name in sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    imported = set(done.stdout.splitlines()[-1].split())
    assert not imported & {"torch", "transformers", "lightgbm", "faiss", "sklearn", "lightning", "matplotlib"}


@pytest.mark.parametrize("word", ["CSV-325", "12"])
def test_a_word_that_looks_like_an_id_gets_a_hint(run, capsys, word):
    run(word, "json=true")
    assert f"note: {word} looks like an id, but locate compares the words" in " ".join(capsys.readouterr().err.split())
    run("UTF-x crash", "json=true")
    assert "looks like an id" not in capsys.readouterr().err
