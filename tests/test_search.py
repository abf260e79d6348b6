"""The command that searches, as a person and as a program uses it."""

import io
import json
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

import gedbd.commands.backtest
import gedbd.commands.index
import gedbd.commands.search
from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.positional import literal_text, option_names

PIECES = ["'", '"', "\\", "$", "{", "}", "${x}", "${oc.env:HOME}", "\n", "\r", "\t", "=", ",", "[", "]", " ", "a", ":"]
PIECES += ["(", ")", "é", "#", "%", "\\'", "???", "null", "\\${", "\U0001f600", "@", "*"]

TRAINING_ONLY = {"lightning", "pytorch_lightning", "lightning_fabric", "torchmetrics", "torch_geometric", "wandb"}
REPORTING_ONLY = {"sklearn", "matplotlib"}
SEARCH_AND_LIST_MODULES = """
import runpy, sys
sys.argv = ["search", "index=stored", "json=true", "crash when I paste"]
runpy.run_module("gedbd.commands.search", run_name="__main__", alter_sys=True)
print(*{name.partition(".")[0] for name in sys.modules})
"""

NAMES = option_names(Path(CONF_DIR) / "search.yaml")


def through(patch, command, *options):
    patch.setattr(sys, "argv", ["gedbd", *options])
    command.main()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an index of the demo corpus, and a way of running a command there."""
    folder = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEDBD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        through(
            patch, gedbd.commands.backtest, "dataset=demo", "encoder=tiny", "max_replayed=60", "hydra.run.dir=tested"
        )
        through(patch, gedbd.commands.index, "run=tested", "out=stored")
        yield folder, partial(through, patch)


@pytest.fixture
def search(home, capsys):
    """Runs the command and gives what it printed."""

    def run(*options):
        capsys.readouterr()
        home[1](gedbd.commands.search, "index=stored", *options)
        return capsys.readouterr().out

    return run


@pytest.fixture
def answers(search):
    return lambda *options: [json.loads(line) for line in search("json=true", *options).splitlines()]


@pytest.fixture
def said(monkeypatch):
    """Puts bytes on standard input."""
    return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))


def test_a_search_imports_neither_what_trains_nor_what_reports(home):
    command = [sys.executable, "-c", SEARCH_AND_LIST_MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=home[0], check=True)
    answer, modules = done.stdout.splitlines()
    imported = set(modules.split())
    assert json.loads(answer)["matches"]
    assert {"torch", "transformers", "gedbd"} <= imported
    assert not imported & (TRAINING_ONLY | REPORTING_ONLY)


def test_words_on_the_command_line(search):
    told = search("UIDPLUS", "missing", "on", "the", "server")
    assert told.startswith("UIDPLUS missing on the server")
    assert "uidplus" in told
    assert "Nothing is suggested automatically: the backtest found no threshold" in told
    assert "Check each match yourself." in told


def test_a_text_file_and_words_are_one(answers, home):
    (home[0] / "report.txt").write_bytes(b"\xef\xbb\xbfCrash when I paste\r\n\r\nIt crashes \xff with a picture.\n")
    (by_file,), (by_words,) = answers("file=report.txt"), answers("Crash when I paste\n\nIt crashes � with a picture.")
    assert by_file["query"] == by_words["query"]
    assert (by_file["query"]["title"], by_file["query"]["description"]) == (
        "Crash when I paste",
        "It crashes � with a picture.",
    )
    assert [one["best"]["issue_id"] for one in by_file["matches"]] == [
        one["best"]["issue_id"] for one in by_words["matches"]
    ]


def test_an_answer_for_programs(answers):
    (answer,) = answers("Pasted screenshots are an empty frame in Outlook", "top_k=3")
    assert set(answer) == {"query", "threshold", "target", "matches"}
    assert (answer["threshold"], answer["target"]["status"]) == (None, "no threshold")
    assert answer["target"]["statement"].startswith(
        "Nothing is suggested automatically: the backtest found no threshold"
    )
    assert len(answer["matches"]) == 3
    best = answer["matches"][0]
    assert set(best) == {"master", "best", "members", "score", "probability", "explanation", "urls"}
    assert best["best"]["title"].startswith("Pasted screenshots are an empty frame in Outlook")
    assert best["members"][0] == best["master"]["issue_id"]
    assert best["master"]["created_at"].startswith("20")


def test_lines_from_standard_input(answers, said):
    lines = [
        {"title": "Pasted screenshots are an empty frame", "created_at": "2024-05-01", "component": "compose"}
        | {"resolved_at": "2024-05-02"},
        {"issue_id": 1001, "title": "a \u2028 line \x85 of its own", "version": 3.0, "os": None},
        {"description": "half \ud800 of a character, and an emoji \U0001f600"},
    ]
    raw = "\n\n".join(json.dumps(line, ensure_ascii=number == 2) for number, line in enumerate(lines)) + "\n"
    said(raw.encode() + b'{"title": "odd byte \xff"}')
    found = [answer["query"] for answer in answers("file=-")]
    assert found[0]["created_at"] == "2024-05-01T00:00:00+00:00"
    assert (found[0]["resolved_at"], found[1]["resolved_at"]) == ("2024-05-02T00:00:00+00:00", None)
    assert (found[1]["issue_id"], found[1]["version"], found[1]["os"]) == ("1001", "3.0", "")
    assert found[1]["title"] == lines[1]["title"]
    assert found[2]["description"] == "half ? of a character, and an emoji \U0001f600"
    assert found[3]["title"] == "odd byte �"


def test_a_file_of_lines(answers, home):
    lines = [{"title": "first \u2028 crash"}, {"title": "second"}]
    (home[0] / "reports.jsonl").write_text(
        "\ufeff" + "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines), newline="", encoding="utf-8"
    )
    assert [answer["query"]["title"] for answer in answers("file=reports.jsonl")] == ["first \u2028 crash", "second"]


def test_how_many_are_shown_changes_nothing_but_that(answers):
    few, many = (answers("crash when I paste", f"top_k={k}")[0]["matches"] for k in (1, 50))
    assert len(few) == 1
    assert len(many) == 50
    assert few == many[:1]


def test_filters(answers, search):
    (answer,) = answers(
        "crash", "top_k=50", "component=COMPOSE", "created_from=2023-01-01", "created_before=2024-01-01"
    )
    assert answer["matches"]
    for match in answer["matches"]:
        assert match["best"]["component"] == "compose"
        assert match["best"]["created_at"].startswith("2023")
    assert "no candidates: the filters exclude every stored report" in search("crash", "created_from=2099-01-01")
    assert answers("crash", "component=12")[0]["matches"] == []


@pytest.mark.slow  # tests/triage/test_report_encoder.py compares the backends
def test_another_backend_on_request(answers):
    pytest.importorskip("openvino")
    by_torch, by_openvino = (answers("paste a picture", *more)[0]["matches"] for more in ([], ["backend=openvino"]))
    assert [one["members"] for one in by_torch] == [one["members"] for one in by_openvino]
    assert by_torch[0]["score"] == pytest.approx(by_openvino[0]["score"], abs=1e-4)


def test_markup_and_smileys_in_reports_are_shown_as_they_are(search, home):
    (home[0] / "report.txt").write_text("[bold]crash[/] :bug: \x1b[31m[/nonsense] \\")
    assert "[bold]crash[/] :bug:  [31m[/nonsense] \\" in search("file=report.txt")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["crash"], "index= is required, "),
        (["index=stored"], r"give exactly one of: a text in quotes, file=report.txt, or file=-"),
        (["index=stored", "crash", "file=report.txt"], r"give exactly one of"),
        (
            ["index=nowhere", "crash"],
            "index=nowhere: no index.sqlite there; build an index with gedbd index run=BACKTEST out=nowhere",
        ),
        (["index=tested", "crash"], "index=tested: no index.sqlite there"),
        (
            ["index=cut", "crash"],
            "cut/index.sqlite is empty because building it was interrupted: build it again",
        ),
        (["index=strange", "crash"], "index.sqlite is not an index"),
        (["index=stored", "crash", "top_k=0"], "top_k=0 must be a whole number between 1 and 50"),
        (["index=stored", "crash", "top_k=51"], "top_k=51 must be a whole number between 1 and 50"),
        (["index=stored", "crash", "top_k=few"], "top_k=few must be a whole number"),
        (
            ["index=stored", "crash", "created_from=yesterday"],
            "created_from=yesterday is not a date: write 2024-01-31",
        ),
        (["index=stored", "crash", "created_before=2024-02-30"], "created_before=2024-02-30 is not a date"),
        (["index=stored", "  "], "the report has neither a title nor a description"),
        (["index=stored", "query="], "the report has neither a title nor a description"),
        (["index=stored", "file=nowhere.txt"], "file=nowhere.txt: no such file"),
        (["index=stored", "x" * 1001], "the title has 1,001 characters, more than 1,000: shorten it"),
    ],
)
def test_mistakes_are_told_in_one_line(home, options, message):
    folder, command = home
    for name in ("cut", "strange"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "cut" / "index.sqlite").touch()
    (folder / "strange" / "index.sqlite").write_text("no database " * 100)
    with pytest.raises(SystemExit, match=message):
        command(gedbd.commands.search, *options)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"title": "a", "sumary": "b"}',
            "line 3: 'sumary' is not a field of a report: choose from title, description, issue_id",
        ),
        (b'{"title": "a"', "line 3: Expecting"),
        (b"[" * 100_000, "line 3: maximum recursion depth"),
        (b"[1, 2]", "line 3: expected an object with title and description"),
        (b'{"title": ["a"]}', "line 3: title must be a text"),
        (b'{"issue_id": "3"}', "line 3: the report has neither a title nor a description"),
        (b'{"title": "a", "created_at": "soon"}', "line 3: created_at=soon is not a date"),
    ],
)
def test_a_bad_line_is_named_and_those_before_are_answered(home, said, capsys, line, message):
    said(b'{"title": "crash"}\n\n' + line + b'\n{"title": "never read"}')
    with pytest.raises(SystemExit, match=f"error: standard input, {message}"):
        home[1](gedbd.commands.search, "index=stored", "file=-", "json=true")
    assert len([text for text in capsys.readouterr().out.splitlines() if text.startswith('{"query"')]) == 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_nothing_to_look_for_is_told(home, said, content):
    said(content)
    with pytest.raises(SystemExit, match=r'^error: standard input is empty: give a text, or a line such as ."title"'):
        home[1](gedbd.commands.search, "index=stored", "file=-")
    for name in ("empty.txt", "empty.jsonl"):
        (home[0] / name).write_bytes(content)
        with pytest.raises(SystemExit, match=f"^error: file={name} is empty: give a text"):
            home[1](gedbd.commands.search, "index=stored", f"file={name}")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_any_text_reaches_the_command_unchanged(seed):
    generator = random.Random(seed)
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        for _ in range(12):
            text = "a " + "".join(generator.choices(PIECES, k=generator.randint(1, 9)))
            assert compose("search", literal_text([text, "top_k=3"], "query", NAMES)).query == text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["crash", "when", "x = 3"], ["query='crash when x = 3'"]),
        (["index=a", "it's", "--info", "top_k=3", "--"], ["index=a", "--info", "top_k=3", "query='it\\'s'"]),
        (["+a.b=1", "~c=2", "hydra.run.dir=.", "--"], ["+a.b=1", "~c=2", "hydra.run.dir=."]),
        (["crash\\"], ["query='crash\\\\'"]),
        (["crash\\\n"], ["query='crash\\\n'"]),
        ([], []),
    ],
)
def test_bare_words_are_the_text(arguments, expected):
    assert literal_text(arguments, "query", NAMES) == expected
