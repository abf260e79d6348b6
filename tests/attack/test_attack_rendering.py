"""Texts of strangers in everything that is written: no link, reference, formula or element comes from them."""

import csv
import io
import json
import logging
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from fastapi.testclient import TestClient
from markdown_it import MarkdownIt
from refusals import refuses
from rich.console import Console
from small_index import MET, REPORTS, SmallIndex

import gedbd.io.console
import gedbd.service.app
from gedbd.configuration.command import CommandError, mistakes_in_one_line
from gedbd.corpora.bug_report import Explanation, Match, Report, check_report
from gedbd.corpora.readers.csv_export import read_csv as read_export
from gedbd.corpora.screenshots import read_captions, write_captions
from gedbd.experiments.published import paper_markdown
from gedbd.experiments.report.judging import Judging, Verdict
from gedbd.experiments.report.report_page import Section, fill_tables, markdown, show, write_report
from gedbd.io.command_output import print_hanging, print_records, print_table
from gedbd.io.console import code_block, escape_markdown, print_line, print_path, printable, verbosity
from gedbd.io.table_files import read_csv, safe_cells, write_csv
from gedbd.service.duplicate_suggestions import suggest_duplicates
from gedbd.triage.answer import print_matches

REFERENCES = ["http://evil.example/x", "see (https://evil.example), please", "www.evil.example"]
REFERENCES += ["mail ann@evil.example now", "[a](//evil.example)", "hello @ann, @org/team!", "\u00e9@ann", "fixes #12"]
REFERENCES += ["0123456789abcdef0123456789abcdef01234567", "ann/mail@abc1234", "@|ann #`12 a|@ann|b"]
REFERENCES += ["&#64;ann &commat;ann", "<!-- @ann -->@ann", "costs $5 or $\\text{x}$", "[click](javascript:alert(1))"]
REFERENCES += ["![pixel](http://evil.example/x.png)", "&lt;script&gt;", "**bold** _slanted_ `code` ~~gone~~"]
REFERENCES += ["<!-- end -->", "a | b | c", "a \\", "snake_case_name [0.1, 0.2] (kept)"]
BLOCKS = ["# heading", "> quoted", "1. item", "+ @ann", "---", "```", "    code", "a\n# heading\n\n<b>bold</b>"]
CONTROLS = ["\x1b[31mred\x1b]8;;http://evil.example\x07link", "\x9b31m \x90 \x85 \x00"]
CONTROLS += ["safe\u202egpj.exe\u202c \u2066x\u2069 \u200e\u200f\u061c", "a\u2028b\u2029c"]
CONTROLS += ["ad\u200dmin \u200bx\ufeff \u00ad", "\r\n::error::forged\rline"]
MARKUP = ["[red]x[/red] [link=http://evil.example]y[/link] [/]", "{0} %s %(x)d {task.total}"]
HTML = ["<script>alert(1)</script>\"'><img src=x onerror=alert(1)>", "javascript:alert(1)", "</td></table></textarea>"]
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb \u05e9\u05dc\u05d5\u05dd"
TEXTS = [*REFERENCES, *BLOCKS, *CONTROLS, *MARKUP, *HTML, PERSIAN]
# Those that are plain words in HTML are tried in Markdown only.
IN_HTML = [REFERENCES[0], *(text for text in TEXTS if re.search(r"[<>&\"']|[^ -~]", text))]
SHOWN_AS_WRITTEN = [*REFERENCES, *MARKUP, *HTML, PERSIAN]
FORMULAS = ['=HYPERLINK("http://evil.example")', "+1+1", "-1+cmd|' /C calc'!A0", "\t=1+1", "\r=1+1", "\n=1"]
FORMULAS += ["\uff1d1+1", "\uff20x", " =1+1", "\u200b\u00a0@SUM(1)", '"=1+1', "'=1+1", "''=1", '\ufeff "\uff0b1']
FORMULAS += ["\x07 -1+1", "\ty"]
NO_FORMULAS = ["it's", "a\r=1+1", 'b",=1+1', "c\n=1+1", "d\r\n=1+1"]

# What GitHub makes a link of, in the text between the elements of a page: written independently of gedbd.
AUTOLINK = re.compile(r"(https?|ftp)://\S|www\.\S|(mailto|xmpp):|[A-Za-z0-9._+-]+@[A-Za-z0-9_-]+\.[A-Za-z0-9]", re.I)
GITHUB = re.compile(r"(?<![A-Za-z0-9_`])@[A-Za-z0-9]|#[0-9]|\bGH-[0-9]|\b[0-9a-f]{7,40}\b|\$", re.ASCII)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the texts that are not code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.all_texts: list[str] = []
        self.code = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "action")]
        self.code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self.code -= tag in ("code", "pre")
        if tag not in ("code", "a", "strong", "em"):
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        self.all_texts.append(data)
        self.texts.append("" if self.code else data)

    handle_comment = handle_pi = handle_decl = lambda self, data: self.elements.append(("markup", (data[:3],)))


def is_clean(text: str) -> bool:
    """Whether every sign has a shape, but for line breaks and the joiners of the Persian text."""
    return all(sign.isprintable() or sign in "\n\u200c\u200d" for sign in text) and "d\u200dm" not in text


def of_report(folder: Path, text: str) -> str:
    table = pd.DataFrame({"title": [text], f"column {text}": ["x"], "url of title": ["javascript:alert(1)"]})
    section = Section(f"In {text}", text, [table])
    empty = Section(f"Empty {text}", "", [table.head(0)])
    write_report(folder, f"Title {text}", text, [section, empty], command=text, next_steps=[(text, text)])
    return (folder / "report.md").read_text(encoding="utf-8")


def of_comment(folder: Path, text: str) -> str:
    """The words of an index that somebody else made are part of the comment."""
    index = SmallIndex(folder, REPORTS)
    asked = Report("Attachments over 10 MB are not sent", "", "77")
    suggestion = suggest_duplicates(index, asked, 3, replace(MET, suggestions=1, first=text, last=text))
    assert suggestion.comment is not None
    return re.sub(r"<!-- gedbd -->|#12 \(|#15 \(", "", suggestion.comment)


MARKDOWN_WRITERS: dict[str, Callable[[Path, str], str]] = {
    "report": of_report,
    "comment": of_comment,
    "table": lambda folder, text: "\n".join(markdown(show(pd.DataFrame({"a": [text, "b"], text: ["c", text]})))),
    "filled": lambda folder, text: (
        fill_tables("<!-- report: A --><!-- end -->", [Section("A", "", [pd.DataFrame({"a": [text]})])])
        .replace("<!-- report: A -->", "")
        .replace("<!-- end -->", "")
    ),
    "published": lambda folder, text: paper_markdown(text, [text], [pd.DataFrame({"method": [text]})]),
    "note": lambda folder, text: f"# A\n\n- {escape_markdown(text)}\n",
    "code": lambda folder, text: code_block(f"{text}\n```\n````x {text}"),
}


@pytest.mark.parametrize("writer", MARKDOWN_WRITERS)
def test_markdown_links_and_refers_to_nothing(tmp_path: Path, writer: str) -> None:
    write = partial(MARKDOWN_WRITERS[writer], tmp_path)
    render = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render

    def elements(page: Elements) -> list[tuple[str, tuple[str, ...]]]:
        return [one for one in page.elements if one != ("code", ())]

    expected = elements(Elements(render(write("plain words"))))
    for text in TEXTS:
        written = write(text)
        assert is_clean(written), text
        page = Elements(render(written))
        assert elements(page) == expected, text
        shown = "".join(page.texts)
        assert not AUTOLINK.search(shown), shown
        assert not GITHUB.search(shown), shown
        if text in SHOWN_AS_WRITTEN:
            assert " ".join(text.split()) in "".join(page.all_texts)


@pytest.mark.parametrize("text", IN_HTML)
def test_a_page_has_the_elements_of_its_template_only(tmp_path: Path, text: str) -> None:
    def page_of(text: str, url: str) -> str:
        pair = {"verdict": "", "report": text, "suggested": "2", "url of report": url}
        pairs = pd.DataFrame([{**pair, "title": text, text: text}])
        judging = Judging(text, text, text, text, (Verdict(text, "2", "reject"),))
        sections = [Section("List", text, [pairs], asks_verdicts=True)]
        steps = [(text, text)]
        return write_report(tmp_path, text, text, sections, command=text, next_steps=steps, judging=judging).read_text(
            encoding="utf-8"
        )

    written = page_of(text, "javascript:alert(1)")
    page = Elements(written)
    assert page.elements == Elements(page_of("x" * len(text), "data:text/html,x")).elements
    assert page.addresses == ["#list"]
    body = written.replace(Judging("", "", "", "").script, "")
    assert all(sign.isprintable() or sign in "\n\t\u200c\u200d" for sign in body)
    assert printable(text, keep="\n").strip() in "".join(page.all_texts)
    (report,) = re.findall(r'data-report="(.*?)"', written)
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append(dict(attrs)["x"] or "")  # type: ignore[method-assign]
    parser.feed(f'<a x="{report}">')
    if not re.search(r"[\x00-\x1f\x7f-\x9f]", text):  # no id holds control characters
        assert found == [text]  # a program reads the id as it is


def of_matches(console: Console, text: str) -> None:
    stored = replace(REPORTS[0], title=text, component=text, status=text, url=f"https://b.org/{text}")
    explanation = Explanation((text,), {text: text}, ((text, text, 0.5),), (text,))
    match = Match(stored, replace(stored, issue_id="9"), ("12", "9"), 1.0, 0.9, explanation, {"9": text})
    print_matches(console, Report(text, text, "7"), [match], MET, MET, text)


def of_error(console: Console, text: str) -> None:
    with pytest.raises(CommandError) as raised, mistakes_in_one_line():
        raise ValueError(text or "empty")
    console.file.write(str(raised.value))
    assert "\n" not in str(raised.value)


def of_log(console: Console, text: str) -> None:
    handler = logging.StreamHandler(console.file)
    log = logging.getLogger("gedbd.rendering")
    log.addHandler(handler)
    with verbosity(None):
        log.warning("report %s: %d", text, 3)
    log.removeHandler(handler)
    assert console.file.getvalue().count("\n") == 1


def of_progress(console: Console, text: str) -> None:
    bar = gedbd.io.console.item_progress("x")
    bar.add_task(text, total=1)
    console.print(bar.make_tasks_table(bar.tasks))


TERMINAL_WRITERS: dict[str, Callable[[Console, str], None]] = {
    "table": lambda console, text: print_table(console, pd.DataFrame({text: [text], "b": [text]}), text),
    "records": lambda console, text: print_records(console, pd.DataFrame({text: [text]})),
    "hanging": lambda console, text: print_hanging(console, "  x ", text),
    "line": lambda console, text: print_line(console, text),
    "path": lambda console, text: print_path(console, text, text),
    "matches": of_matches,
    "error": of_error,
    "log": of_log,
    "progress": of_progress,
}


@pytest.mark.parametrize("writer", TERMINAL_WRITERS)
@pytest.mark.parametrize("text", [*CONTROLS, *MARKUP, PERSIAN])
def test_a_terminal_gets_no_sign_that_steers_it(writer: str, text: str) -> None:
    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False)
    TERMINAL_WRITERS[writer](console, text)
    told = console.file.getvalue()
    assert is_clean(told)
    if text in (*MARKUP, PERSIAN):
        assert text in told


@pytest.mark.parametrize("text", [*FORMULAS, *NO_FORMULAS])
def test_a_csv_file_is_not_run_and_reads_back_as_it_was(tmp_path: Path, text: str) -> None:
    numbers = {"score": [-0.5, 2.0], "option": ["-1", "+1e-3"], "n": [-1, 2]}
    write_csv(tmp_path / "table.csv", pd.DataFrame({"title": [text, "it's"], text: ["-1", text]} | numbers))
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    kept = text.replace("\r\n", "\n").replace("\r", "\n")
    safe = f"'{kept}" if text in FORMULAS else kept
    assert rows == [["title", safe, *numbers], [safe, "'-1", "-0.5", "-1", "-1"], ["it's", safe, "2.0", "+1e-3", "2"]]
    read = read_csv(tmp_path / "table.csv", *numbers)
    assert read.columns.tolist() == ["title", kept, *numbers]
    assert (read["title"].tolist(), read[kept].tolist()) == ([kept, "it's"], ["-1", kept])
    assert read["option"].tolist() == [-1, 0.001]


@pytest.mark.parametrize("column", [["=1", None], ["=1", 3], ["=1", float("nan")], pd.Categorical(["=1", "b"])])
def test_no_cell_is_run_beside_values_of_another_kind(column: object) -> None:
    table = pd.DataFrame({"title": column, "date": pd.to_datetime(["2024-01-31", None], utc=True)})
    assert safe_cells(table)["title"].tolist()[0] == "'=1"
    assert safe_cells(table).to_csv().count("2024-01-31") == 1


def test_captions_are_safe_and_read_back_unchanged(tmp_path: Path) -> None:
    path, names = tmp_path / "captions.csv", [formula.strip() for formula in FORMULAS]
    write_captions(
        path, [(f"{name}.png", "", f"{name} shown", "described") for name in names] + [("'a'", "", "'=", "")]
    )
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\uff1d"))]
    assert read_captions(path) == {f"{name}.png": f"{name} shown" for name in names} | {"'a'": "'="}


def test_one_rule_for_ids_everywhere(tmp_path: Path, client_of: Callable[..., TestClient]) -> None:
    path, columns = tmp_path / "reports.csv", {"id": "id", "title": "title", "duplicate": None}
    client = client_of()
    for issue_id in ("A 1", "A\u00a01", "A\t1", "A\x001", "A\x7f1", "A\u20031", "A\x851", "A" * 201):
        path.write_text(f'id,title\n1,a\n"{issue_id}",b\n', encoding="utf-8")
        if "\x00" not in issue_id:
            with refuses(r"reports.csv, row 3, column 'id': .* is not a valid id \(1 in total\); an id has 1 to 200"):
                read_export(None, str(path), columns)
        with pytest.raises(ValueError, match="an id has 1 to 200 characters"):
            check_report(Report("a crash", issue_id=issue_id))
        for route in ("reports", "search"):
            answer = client.post(f"/api/{route}", json={"issue_id": issue_id, "title": "a crash"})
            assert answer.status_code == 422, issue_id
    path.write_text("id,title\n 1 ,a\n\u00a0A-2\t,b\n", encoding="utf-8")  # blanks around an id do not count
    assert read_export(None, str(path), columns).reports["id"].tolist() == ["1", "A-2"]
    added = client.post("/api/reports", json={"issue_id": " A-2\u00a0", "title": "a crash"})
    assert added.json() == {"reports": {"A-2": "added"}}
    assert Report(issue_id="\tA-2 ").issue_id == "A-2"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js to run the scripts of the pages")
def test_the_scripts_of_the_pages_agree_with_python(tmp_path: Path) -> None:
    page = gedbd.service.app.PAGE_DIR
    judging = (Path(gedbd.experiments.report.judging.__file__).parent / "judge.js").read_text(encoding="utf-8")
    (csv_cell,) = re.findall(r"function csvCell.*?\n}", judging, re.DOTALL)
    (tmp_path / "text.mjs").write_text((page / "text.js").read_text(encoding="utf-8"), encoding="utf-8")
    asked = [*TEXTS, *FORMULAS, "a=1", "it's"]
    program = (
        f"import {{ printable }} from './text.mjs';\n{csv_cell}\n"
        f"const asked = {json.dumps(asked)};\n"
        "console.log(JSON.stringify([asked.map(printable), asked.map(csvCell)]));"
    )
    (tmp_path / "run.mjs").write_text(program, encoding="utf-8")
    done = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    shown, cells = json.loads(done.stdout)
    assert shown == [printable(text, keep="\n\t") for text in asked]
    write_csv(tmp_path / "table.csv", pd.DataFrame({"a": [text.replace("\r", "") for text in asked]}))
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        by_python = [row[0] for row in csv.reader(file)][1:]
    by_script = [row[0] for row in csv.reader(io.StringIO("\n".join(cells), newline=""))]
    assert [cell.replace("\r", "") for cell in by_script] == by_python


def test_the_scripts_of_the_pages_set_text_only() -> None:
    for script in gedbd.service.app.PAGE_DIR.glob("*.js"):
        markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|eval\("
        assert not re.search(markup, script.read_text(encoding="utf-8")), script.name
