"""One vocabulary: words and names that were retired do not come back.

Each retired word was a private one; the field's word for it stands behind it.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREE = ("gedbd", "conf", "tests", "hydra_plugins", "docs", "README.md", "Makefile", ".github")
TEXT = {".css", ".html", ".j2", ".js", ".md", ".py", ".toml", ".yaml", ".yml", ""}
WORDS = {
    "doors?": "command",
    "material": "prepared data",
    "lone": "singleton",
    "group-mates?": "positive",
    "lexicons?": "inverted index",
    "text makers?": "text template",
    "(un)?filed|filing": "created, chronological order",
    "judged": "feedback labels",
    "atlas": "t-SNE projection",
    "rivals?": "baselines",
    "uncollected": "gc_paused",
    r"quieten\w*": "silence_library_logs",
    "bare words?": "positional argument",
    "anew": "again",
    r"(un)?heed\w*": "use, ignore",
    "whose worth": "(say it plainly)",
    "stands? in": "is in, replaces",
    "cannot be had": "is not available",
    "magnets?": "hub",
    "bothered": "suggestion rate",
    r"promis\w+": "precision target",
    "walls?": "split",
    "deals?|dealt|dealing": "sample, distribute",
    "sure": "above the threshold, certain",
    "outcomes?": "result",
    "engines?": "backend",
    "fewest": "min_",
    "signals_of|(?-i:SIGNALS)": "features",
    "node ?memory": "in-memory node features",
    "(first|second) system": "the method's name",
    "room": "capacity",
    "(newest|most)=": "last_n=, max_...=",
}
NAMES = {  # of classes and functions
    *("Because", "Codes", "Columns", "Confidence", "Engine", "Found", "Given", "Judged", "Labelled", "Lexicon"),
    *("MarkedFields", "Matching", "Material", "Memory", "NodeMemory", "Numbers", "Outcome", "Reader", "Rules"),
    *("Share", "Step", "Told", "Why"),
}
EXCEPTIONS = {  # phrase -> why it may hold a retired word
    r"wall[- ](clock|time)": "elapsed time",
    r"lone surrogates?|lone_surrogates?": "the Unicode term",
    r"search engines?": "a kind of program",
    r"wandb\.Settings|Promise\b": "names of other libraries",
    r"not sure whether|\(\?:sure\|certain\)": "words of commenters, which the reader of comments recognises",
    r"no room left": "an error message in a bug report",
    r"\bFiled\b": "a column of a tracker's export in the tests of its reader",
}
OLD_NAMES = {"gedbd/configuration/renamed_options.py", "tests/configuration/test_renamed_options.py"}  # list them
EXCEPTION = re.compile("|".join(EXCEPTIONS))
# An underscore separates words too: no_room_left.
RETIRED = re.compile(rf"(?<![A-Za-z-])(?:{'|'.join(WORDS)})(?![A-Za-z-])", re.IGNORECASE)


def tracked_files() -> list[Path]:
    """Text files of the project that Git knows, without this one."""
    listed = subprocess.run(["git", "ls-files", *TREE], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.splitlines() if name not in OLD_NAMES]
    return [file for file in files if file.suffix in TEXT and file.is_file() and file != Path(__file__)]


def retired_words(file: Path) -> list[str]:
    """``file:line: word`` for each retired word."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        match = RETIRED.search(EXCEPTION.sub("", line))
        if match:
            found.append(f"{file.relative_to(ROOT)}:{number}: {match[0]}")
    return found


def retired_names(file: Path) -> list[str]:
    """``file:line: name`` for each class or function of a retired name."""
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, defined)]
    return [f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}" for node in nodes if node.name in NAMES]


def test_no_retired_word_is_used():
    found = [line for file in tracked_files() for line in retired_words(file)]
    assert not found, "\n".join(found)


def test_no_class_or_function_has_a_retired_name():
    found = [line for file in tracked_files() if file.suffix == ".py" for line in retired_names(file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "retired"),
    [
        ("the reports in filing order", "filing"),
        ("def fields_of_filing():", "filing"),
        ("through_door(options)", "door"),
        ("an indoor map", None),
        ("a full-room search", None),
        ("wall time in seconds", None),
    ],
)
def test_words_are_found_inside_names_but_not_inside_words(text, retired):
    match = RETIRED.search(EXCEPTION.sub("", text))
    assert (match and match[0]) == retired
