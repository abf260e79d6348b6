"""Links between the pages of the manual, and to files of the repository, lead somewhere."""

import posixpath
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from reference_pages.api_page import api_page
from reference_pages.commands_page import commands_page
from reference_pages.http_page import http_page
from reference_pages.options_page import options_page
from reference_pages.repository_links import linked_outside, with_site_links

ROOT = Path(__file__).parents[2]
MARKDOWN = MarkdownIt("commonmark").enable("table")
HTML_LINK = re.compile(r"(?:href|src)=\"([^\"]+)\"")
HTML_ID = re.compile(r"(?:id|name)=\"([^\"]+)\"")
GENERATED = {
    "docs/reference/api.md": api_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/http_api.md": http_page,
    "docs/reference/options.md": options_page,
}
WRITTEN = ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]


def inline_tokens(text: str) -> list[Token]:
    """All tokens of a page, those inside of paragraphs too."""
    tokens = MARKDOWN.parse(text)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def links_of(text: str) -> list[str]:
    """The addresses that a page links to or shows as images."""
    found = []
    for token in inline_tokens(text):
        if token.type in ("html_block", "html_inline"):
            found += HTML_LINK.findall(token.content)
        found += [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]
    return found


@cache
def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them, and those in HTML."""
    tokens = MARKDOWN.parse(text)
    found: set[str] = set()
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(part.content for part in content.children or () if part.type in ("text", "code_inline"))
            found.add(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
    return found | set(HTML_ID.findall(text))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """All pages by their place in the repository, with those that only the site has."""
    written = {name: (ROOT / name).read_text(encoding="utf-8") for name in WRITTEN}
    return written | {name: make() for name, make in GENERATED.items()}


def broken_links(name: str, pages: dict[str, str]) -> list[str]:
    """The links of a page that lead nowhere."""
    broken = []
    for link in links_of(pages[name]):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        if target in pages:
            if anchor and anchor not in anchors_of(pages[target]):
                broken.append(link)
        elif not (ROOT / target).is_file():  # the site has no page for a folder
            broken.append(link)
    return broken


@pytest.mark.parametrize("name", sorted({*WRITTEN, *GENERATED}))
def test_links_lead_somewhere(name, pages):
    on_github = {place: text for place, text in pages.items() if place in WRITTEN}
    assert not broken_links(name, on_github if name in WRITTEN else pages)


def pages_in(navigation: object) -> list[str]:
    """The pages of the navigation in mkdocs.yml."""
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for part in parts for page in pages_in(part)]


def test_the_navigation_has_every_page():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)
    listed = [f"docs/{page}" for page in pages_in(settings["nav"])]
    assert sorted(listed) == sorted({*WRITTEN, *GENERATED} - {"README.md"})


def test_broken_links_are_found():
    pages = {
        "docs/a.md": "# One `x=1`\n\n[1](b.md) [2](b.md#two) [3](#one-x1) [4](c.md) ![](x.png)",
        "docs/b.md": "# B",
    }
    assert broken_links("docs/a.md", pages) == ["b.md#two", "c.md", "x.png"]


def test_links_out_of_the_manual_lead_to_copies(tmp_path):
    for name, text in {
        "docs/guides/a.md": "[card](../../gedbd/card.md#use) [own](../index.md) [none](../../gone.md)",
        "gedbd/card.md": "# Use\n\n[file](../conf/x.yaml) [back](../docs/index.md)",
        "conf/x.yaml": "",
        "docs/index.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert set(linked_outside(tmp_path)) == {"repository/gedbd/card.md", "repository/conf/x.yaml"}
    guide = with_site_links((tmp_path / "docs/guides/a.md").read_text(), "guides/a.md", tmp_path)
    assert guide == "[card](../repository/gedbd/card.md#use) [own](../index.md) [none](../../gone.md)"
    card = with_site_links((tmp_path / "gedbd/card.md").read_text(), "repository/gedbd/card.md", tmp_path)
    assert card == "# Use\n\n[file](../conf/x.yaml) [back](../../index.md)"


def test_tests_named_on_the_page_on_security_exist(pages):
    page = pages["docs/security.md"]
    sections = yaml.safe_load((ROOT / "tests" / "attack" / "promises.yaml").read_text())
    assert "`tests/attack/promises.yaml`" in page
    assert {f"## {section}" for section in sections} <= set(page.splitlines())
    named = [test.split("::") for promises in sections.values() for tests in promises.values() for test in tests]
    assert len(named) > 30
    assert all(tests for promises in sections.values() for tests in promises.values())
    missing = [
        "::".join((file, *test))
        for file, *test in named
        if not (ROOT / file).is_file() or any(f"def {name}(" not in (ROOT / file).read_text() for name in test)
    ]
    assert not missing
