"""The command that searches, as a person and as a program uses it."""

import io
import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from refusals import mistakes
from run_commands import commands_in

from gedbd.configuration.errors import CommandError
from gedbd.corpora.bug_report import Report
from gedbd.triage.answer import read_queries

pytestmark = pytest.mark.integration

TRAINING_ONLY = {"lightning", "pytorch_lightning", "lightning_fabric", "torchmetrics", "torch_geometric", "wandb"}
REPORTING_ONLY = {"sklearn", "matplotlib"}
SEARCH_AND_LIST_MODULES = """
import sys
from gedbd.__main__ import main
sys.argv = ["gedbd", "search", "index=stored", "json=true", "crash when I paste"]
main()
print(*{name.partition(".")[0] for name in sys.modules})
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs commands in a folder with an index of the demo corpus."""
    folder = tmp_path_factory.mktemp("search")
    with commands_in(folder) as command:
        command("index", "dataset=demo", "encoder=tiny", "out=stored")
        yield command


@pytest.fixture
def search(run):
    return lambda *options: run("search", "index=stored", *options)


@pytest.fixture
def answers(search):
    return lambda *options: [json.loads(line) for line in search("json=true", *options).splitlines()]


@pytest.fixture
def said(monkeypatch):
    """Puts bytes on standard input."""
    return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))


def test_a_search_imports_neither_what_trains_nor_what_reports(run):
    command = [sys.executable, "-c", SEARCH_AND_LIST_MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    answer, modules = done.stdout.splitlines()
    imported = set(modules.split())
    assert json.loads(answer)["matches"]
    assert "gedbd" in imported
    assert not imported & (TRAINING_ONLY | REPORTING_ONLY | {"torch", "transformers"})


def test_words_on_the_command_line(search):
    told = search("UIDPLUS", "missing", "on", "the", "server")
    assert told.startswith("UIDPLUS missing on the server")
    assert "uidplus" in told
    assert "Nothing is suggested automatically: the probabilities were learned from other trackers" in told
    assert "Check each match yourself." in told


def test_an_answer_for_programs(answers):
    (answer,) = answers("Pasted screenshots are an empty frame in Outlook", "top_k=50")
    assert set(answer) == {"query", "threshold", "target", "list_statement", "matches"}
    assert (answer["threshold"], answer["target"]["status"]) == (None, "not measured")
    assert answer["target"]["statement"].startswith("Nothing is suggested automatically: the probabilities were")
    assert len(answer["matches"]) == 50
    best = answer["matches"][0]
    assert set(best) == {"master", "best", "members", "score", "probability", "explanation", "urls", "similarity"}
    assert best["best"]["title"].startswith("Pasted screenshots are an empty frame in Outlook")
    assert best["members"][0] == best["master"]["issue_id"]
    assert best["master"]["created_at"].startswith("20")
    assert answers("Pasted screenshots are an empty frame in Outlook", "top_k=1")[0]["matches"] == [best]


def test_a_text_file_and_words_are_one(tmp_path):
    file = tmp_path / "report.txt"
    file.write_bytes(b"\xef\xbb\xbfCrash when I paste\r\n\r\nIt crashes \xff with a picture.\n")
    words = "Crash when I paste\n\nIt crashes � with a picture."
    expected = [Report("Crash when I paste", "It crashes � with a picture.")]
    assert list(read_queries(None, str(file))) == list(read_queries(words, None)) == expected


MULTIPART = b"""Subject: =?utf-8?q?Men=C3=BC_ist_leer?=\r
Date: Tue, 02 Jan 2024 09:05:11 +0100\r
Content-Type: multipart/alternative; boundary=b\r
\r
--b\r
Content-Type: text/html; charset=utf-8\r
Content-Transfer-Encoding: base64\r
\r
PHA+aHRtbDwvcD4=\r
--b\r
Content-Type: text/plain; charset=iso-8859-1\r
Content-Transfer-Encoding: quoted-printable\r
\r
Nach dem Start ist das Men=FC=\r
 leer.\r
--b--\r
"""
OPENED = "Window is empty\r\nOpen the window.\r\n"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bom.txt", OPENED.encode("utf-16"), Report("Window is empty", "Open the window.")),
        ("little.txt", OPENED.encode("utf-16-le"), Report("Window is empty", "Open the window.")),
        ("big.txt", OPENED.encode("utf-16-be"), Report("Window is empty", "Open the window.")),
        (
            "front.md",
            b"---\ntitle: 'Total: wrong'\nversion: [1, 2]\ncreated_at: 2024-01-02\nassignee: x\n---\n\n# Steps\nAdd.",
            Report("Total: wrong", "# Steps\nAdd.", version="1, 2", created_at=datetime(2024, 1, 2, tzinfo=UTC)),
        ),
        ("template.md", b"---\nname: Bug\ntitle: ''\n---\nTotal wrong\nAdd.", Report("Total wrong", "Add.")),
        ("rule.md", b"---\nno fields\n---\nAdd.", Report("---", "no fields\n---\nAdd.")),
        (
            "mail.EML",
            MULTIPART,
            Report(
                "Menü ist leer",
                "Nach dem Start ist das Menü leer.",
                created_at=datetime(2024, 1, 2, 8, 5, 11, tzinfo=UTC),
            ),
        ),
        ("page.eml", b"Subject: a\nContent-Type: text/html\n\n<p>one &amp; two</p>", Report("a", "one & two")),
        ("bad.md", b"---\ntitle: [a\n---\nx", "the front matter is not YAML .*: correct it, or delete it"),
        (
            "bad.eml",
            b"Subject: a\nContent-Type: text/plain; charset=odd\n\nb",
            "the e-mail has an encoding that is not",
        ),
        ("empty.eml", b"From: a\n\n", "the report has neither a title nor a description"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", r"file=\S*a.png holds no text: save the report as plain text"),
    ],
)
def test_texts_as_editors_and_mail_programs_save_them(tmp_path, name, content, expected):
    file = tmp_path / name
    file.write_bytes(content)
    if isinstance(expected, Report):
        assert list(read_queries(None, str(file))) == [expected]
        return
    with pytest.raises(ValueError, match=rf"^(file=\S*{name}: )?{expected}"):
        read_queries(None, str(file))


def test_an_issue_as_its_tracker_exports_it(tmp_path):
    file = tmp_path / "issue.json"
    issue = {"number": 7, "title": "Crash", "body": "It ends.", "created_at": "2024-01-01T10:00:00Z"}
    file.write_text(json.dumps(issue | {"labels": [{"name": "bug"}]}))
    (report,) = read_queries(None, str(file))
    assert (report.issue_id, report.title, report.description) == ("7", "Crash", "It ends.")
    assert report.created_at.isoformat() == "2024-01-01T10:00:00+00:00"


def test_lines_from_standard_input(said):
    dates = {"created_at": "2024-05-01", "resolved_at": "2024-05-02"}
    lines = [
        {"title": "Pasted screenshots are an empty frame", "component": "compose"} | dates,
        {"issue_id": 1001, "title": "a \u2028 line \x85 of its own", "version": 3.0, "os": None},
        {"description": "half \ud800 of a character, and an emoji \U0001f600"},
    ]
    raw = "\n\n".join(json.dumps(line, ensure_ascii=number == 2) for number, line in enumerate(lines)) + "\n"
    said(raw.encode() + b'{"title": "odd byte \xff"}')
    dated, versioned, described, odd = read_queries(None, "-")
    assert [f"{moment:%Y-%m-%d}" for moment in (dated.created_at, dated.resolved_at)] == ["2024-05-01", "2024-05-02"]
    assert (versioned.issue_id, versioned.version, versioned.os) == ("1001", "3.0", "")
    assert (versioned.title, versioned.resolved_at) == (lines[1]["title"], None)
    assert described.description == "half ? of a character, and an emoji \U0001f600"
    assert odd.title == "odd byte �"


def test_issues_and_reports_are_read_alike_from_every_route(tmp_path, said):
    issue = {"number": 7, "title": "Crash", "body": "It ends.", "createdAt": "2024-01-01T10:00:00Z"}
    stored = {"issue_id": "7", "title": "Crash", "description": "It ends.", "created_at": "2024-01-01T10:00:00Z"}
    stored |= {"component": "", "url": "", "resolved_at": None}  # as the API gives it
    expected = Report("Crash", "It ends.", "7", datetime(2024, 1, 1, 10, tzinfo=UTC))
    for written in (issue, stored, [issue, stored]):
        text = json.dumps(written)
        for name in ("one.json", "one.jsonl", "ONE.JSONL"):
            (tmp_path / name).write_text(text)
            assert set(read_queries(None, str(tmp_path / name))) == {expected}
        said(text.encode())
        assert set(read_queries(None, "-")) == {expected}
    said(b'{"number": 1, "title": "x", "pull_request": {"url": ""}}')
    with pytest.raises(ValueError, match=r"^standard input, line 1: an issue is expected; these are pull requests"):
        list(read_queries(None, "-"))


def test_a_table_is_not_read_as_a_text(tmp_path):
    (tmp_path / "bugs.CSV").write_text("id,title\n1,Crash\n")
    with pytest.raises(
        ValueError, match=r"bugs.CSV: tables are not supported: write each report as a JSON object with title"
    ):
        read_queries(None, str(tmp_path / "bugs.CSV"))


def test_a_file_of_lines(tmp_path):
    lines = [json.dumps({"title": title}, ensure_ascii=False) for title in ("first \u2028 crash", "second")]
    file = tmp_path / "reports.jsonl"
    file.write_text("\ufeff" + "\r\n".join(lines), newline="", encoding="utf-8")
    assert [report.title for report in read_queries(None, str(file))] == ["first \u2028 crash", "second"]


def test_filters(answers, search):
    options = ("component=COMPOSE", "created_from=2023-01-01", "created_before=2024-01-01")
    (answer,) = answers("crash", "top_k=50", *options)
    assert answer["matches"]
    assert {match["best"]["component"] for match in answer["matches"]} == {"compose"}
    assert {match["best"]["created_at"][:4] for match in answer["matches"]} == {"2023"}
    assert "no candidates: the filters exclude every other report" in search("crash", "created_from=2099-01-01")
    assert answers("crash", "component=12")[0]["matches"] == []
    told = search("crash", "component=OMP")
    assert "component=OMP: no stored report has this component; it must be the full name, such as 'compose', '" in told
    assert "component=" not in search("crash", "component=Compose", "created_from=2099-01-01")


@pytest.mark.parametrize("more", [[], ["json=true"]])
def test_an_id_in_place_of_a_text_is_refused_with_the_option_for_it(run, capsys, more):
    with pytest.raises(CommandError, match=r"^error: 2395 is the id of a stored report, .*: write id=2395$") as refused:
        run("search", "index=stored", "2395", *more)
    assert refused.value.status == 2
    assert capsys.readouterr().out == ""


def test_a_stored_report_is_found_by_its_id_and_left_out_of_its_matches(answers, search):
    (found,) = answers("id=2395", "top_k=50")
    assert found["query"]["issue_id"] == "2395"
    assert found["query"]["description"]
    line = json.dumps({name: found["query"][name] for name in found["query"] if found["query"][name]})
    Path("stored.jsonl").write_text(line)
    assert answers("file=stored.jsonl", "top_k=50") == [found]
    assert "2395" not in [match["best"]["issue_id"] for match in found["matches"]]
    dates = [match["best"]["created_at"] for match in found["matches"]]
    assert min(dates) < found["query"]["created_at"] < max(dates)
    assert search("id=2395").startswith(found["query"]["title"])


def test_what_is_marked_as_a_duplicate_of_a_stored_report_is_named_and_left_out(answers, search):
    (found,) = answers("Pasted screenshots are an empty frame in Outlook", "top_k=50")
    first, second = next(match["members"] for match in found["matches"] if len(match["members"]) == 2)
    (of_first,) = answers(f"id={first}", "top_k=50")  # programs get the group too
    assert [first, second] in [match["members"] for match in of_first["matches"]]
    for issue_id, other in ((first, second), (second, first)):
        for count in (1, 50):
            told = search(f"id={issue_id}", f"top_k={count}")
            assert told.splitlines()[1] == f"already marked as duplicates: {other}"
            assert not {first, second} & set(told.partition("marked as duplicates: ")[2].split()[1:])
            assert told.count("because: ") >= 1
    (alone,) = next(match["members"] for match in of_first["matches"] if len(match["members"]) == 1)
    assert "marked as duplicates" not in search(f"id={alone}")


LONG = ("index=stored " + "x" * 1001, "the title has 1,001 characters, more than 1,000: shorten it")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("options", "message"), [*mistakes("search"), LONG])
def test_mistakes_are_told_in_one_line(run, options, message):
    Path("cut").mkdir(exist_ok=True)
    Path("cut/index.sqlite").touch()
    with pytest.raises(SystemExit, match=message):
        run("search", *shlex.split(options))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"title": "a", "sumary": "b"}', "'sumary' is not a field of a report: choose from title, description"),
        (b'{"title": "a"', "Expecting"),
        (b"[" * 100_000, "maximum recursion depth"),
        (b"[1, 2]", "expected an object with title and description"),
        (b'{"title": ["a"]}', "title must be a string"),
        (b'{"issue_id": "3"}', "the report has neither a title nor a description"),
        (b'{"title": "a", "created_at": "soon"}', "created_at=soon is not a date"),
    ],
)
def test_a_bad_line_is_named_and_those_before_are_given(said, line, message):
    said(b'{"title": "crash"}\n\n' + line + b'\n{"title": "never read"}')
    queries = read_queries(None, "-")
    assert next(queries).title == "crash"
    with pytest.raises(ValueError, match=f"^standard input, line 3: {message}"):
        next(queries)


def test_a_bad_line_ends_the_command_after_the_answers_before(search, said, capsys):
    said(b'{"title": "crash"}\n{}')
    with pytest.raises(SystemExit, match="error: standard input, line 2: "):
        search("file=-", "json=true")
    assert capsys.readouterr().out.startswith('{"query"')


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_nothing_to_look_for_is_told(said, tmp_path, content):
    said(content)
    with pytest.raises(ValueError, match=r'^standard input is empty: give a text, or a line such as ."title"'):
        next(read_queries(None, "-"))
    for name in ("empty.txt", "empty.jsonl"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"^file=\S*{name} is empty: give a text"):
            read_queries(None, str(tmp_path / name))
