"""The files that the manual's commands read: the demo corpus and small ones, in the folder of a test."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pandas as pd
from manual_lines import ROOT, blocks_of
from PIL import Image
from small_localization import write_localization
from small_models import save_small_model
from small_repository import make_repository, write_published, write_reports

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore

NAME_OF_FILE = re.compile(r"^# ([\w/.-]+\.\w+)\n", re.MULTILINE)  # the line above the content of a file
SORTER = """class Sorter {
    void sort(int[] values) {
        for (int i = 1; i < values.length; i++) {
            if (values[i] < values[i - 1]) { swap(values, i); }
        }
    }
}
"""
METHOD = """    /** Counts the {noun}s up to a limit. It never waits. */
    int count{noun}{number}(String {noun}, int limit) {{
        int total = {number};
        for (int i = 0; i < limit; i++) {{ total = total + {noun}.length() * i; }}
        if (total > limit) {{ return limit; }}
        return total;
    }}
"""
NOUNS = ("window", "folder", "index", "parser", "button", "reply", "theme", "report", "search", "field", "mail", "view")
WORDS = ("graph", "tree", "proof", "sort", "automaton", "grammar", "matrix", "queue")
TAGS = ("graphs", "proofs", "sorting", "automata")


def issues_json(folder: Path) -> None:
    """GitHub's export of a made-up tracker."""
    shutil.copy(ROOT / "tests" / "corpora" / "readers" / "issues.json", folder)


def pages(folder: Path) -> None:
    """The same as ``gedbd fetch out=folder`` leaves it."""
    (folder / "folder" / "pages").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "corpora" / "readers" / "issues.json", folder / "folder" / "pages" / "000001.json")


def bugs_csv(folder: Path) -> None:
    """The demo corpus, whose columns have the other names too that the manual gives as examples."""
    table = pd.read_csv(ROOT / "gedbd" / "corpora" / "demo.csv", dtype=str, keep_default_na=False)
    table = table.assign(Key=table["Issue_id"], Summary=table["Title"]).assign(**{"Dup of": table["Duplicated_issue"]})
    table.to_csv(folder / "bugs.csv", index=False)


def reports_csv(folder: Path) -> None:
    """The demo corpus."""
    shutil.copy(ROOT / "gedbd" / "corpora" / "demo.csv", folder / "reports.csv")


def report_txt(folder: Path) -> None:
    """A report in a file."""
    (folder / "report.txt").write_text("Crash on paste\n\nA picture from the clipboard ends the program.\n")


def notes_json(folder: Path) -> None:
    """Two reports as JSON records."""
    later = {"id": 2, "title": "Printing hangs", "created_at": "2026-01-09", "duplicate": 1}
    (folder / "notes.json").write_text(json.dumps([{"id": 1, "title": "No paper", "created_at": "2026-01-02"}, later]))


def screenshots(folder: Path) -> None:
    """The demo corpus, two of whose reports have a picture attached."""
    bugs_csv(folder)
    table = pd.read_csv(folder / "bugs.csv", dtype=str, keep_default_na=False)
    table["Attachments"] = ["first.png", "second.png"] + [""] * (len(table) - 2)
    table.to_csv(folder / "bugs.csv", index=False)
    for name, width in (("first.png", 40), ("second.png", 64)):
        Image.radial_gradient("L").resize((width, 40)).convert("RGB").save(folder / name)


def feedback(folder: Path) -> None:
    """The index folder with one verdict that somebody gave on the page, on two reports of the demo corpus."""
    (folder / "my-index").mkdir()
    store = FeedbackStore(folder / "my-index")
    store.record(FeedbackEvent(Report(issue_id="1001", title="Archive"), "1002", "reject", "web"))
    store.close()


def small_encoder(folder: Path) -> None:
    """A random model of RoBERTa's architecture in a folder, in place of the one on the hub."""
    save_small_model(folder / "small-roberta", "xlm-roberta")


def repository(folder: Path) -> None:
    """A clone, and the tracker's export under both names that the manual gives it, and as a published data set."""
    commits = make_repository(folder / "my-project")
    write_published(folder / "Tomcat.xml", commits)
    write_reports(folder / "issues.csv")
    shutil.copy(folder / "issues.csv", folder / "bugs.csv")


def java_sources(folder: Path) -> None:
    """A class to draw, and twelve classes of five methods."""
    (folder / "Sorter.java").write_text(SORTER)
    (folder / "src").mkdir()
    for noun in NOUNS:
        methods = "".join(METHOD.format(noun=noun, number=number) for number in range(1, 6))
        (folder / "src" / f"{noun}.java").write_text(f"class {noun.title()} {{\n{methods}}}\n")


def changes(folder: Path) -> None:
    """A data set of localization, called after the published one."""
    (folder / "data" / "tomcat").mkdir(parents=True)
    write_localization(folder / "data" / "tomcat")


def stack_exchange(folder: Path) -> None:
    """A site of 80 questions in pairs of duplicates, each with an answer."""
    posts, links = [], []
    start = datetime(2020, 1, 1, tzinfo=UTC)
    for number in range(80):
        pair = number // 2
        title = f"How to {WORDS[pair % 8]} a {WORDS[pair // 5]} {pair}"
        tags = f"<{TAGS[pair % 4]}><{TAGS[(pair + number % 2 + 1) % 4]}>"
        date = (start + timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%S.000")
        asked = {"Id": number, "PostTypeId": 1, "CreationDate": date, "Title": title, "Tags": tags}
        posts.append(asked | {"Body": f"<p>{title}, in words {number}</p>", "AnswerCount": 1})
        posts.append(
            {"Id": 1000 + number, "PostTypeId": 2, "ParentId": number, "CreationDate": date, "Body": "<p>a</p>"}
        )
        if number % 2:
            links.append({"CreationDate": date, "PostId": number, "RelatedPostId": number - 1, "LinkTypeId": 3})
    tables = {"Posts": posts, "PostLinks": links, "Tags": [{"TagName": tag} for tag in TAGS]}
    (folder / "cs").mkdir()
    for name, rows in tables.items():
        elements = [" ".join(f"{key}={quoteattr(str(value))}" for key, value in row.items()) for row in rows]
        body = "".join(f"<row {element} />\n" for element in elements)
        (folder / "cs" / f"{name}.xml").write_text(f"<{name.lower()}>\n{body}</{name.lower()}>\n")


def files_of(page: str, folder: Path) -> None:
    """The files that a page shows in blocks, each below a comment that names it."""
    for language, text in blocks_of(page):
        before, *named = NAME_OF_FILE.split(text)
        if language == "bash" or before:
            continue
        for name, content in zip(named[::2], named[1::2], strict=True):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
