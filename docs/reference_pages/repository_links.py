"""Links of pages to files of the repository that are not in ``docs/``: the site gets copies of them.

In the repository such a link works as it stands, such as ``../../conf/encoder/bert.yaml``. On the site the file lies
below ``repository/``, and Markdown among these files becomes a page.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from reference_pages.docstrings import ROOT

DOCS = "docs/"
COPIES = "repository/"
LINK = re.compile(r"(?P<start>\]\()(?P<path>[^)\s#:]+)(?P<end>(?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def linked_outside(root: Path = ROOT) -> dict[str, Path]:
    """The files outside of ``docs/`` that its pages, and these files again, link to, by their place on the site."""
    waiting = [path.relative_to(root).as_posix() for path in sorted((root / DOCS).rglob("*.md"))]
    found: dict[str, Path] = {}
    while waiting:
        source = waiting.pop()
        for target in _targets(source, (root / source).read_text(encoding="utf-8")):
            place = f"{COPIES}{target}"
            if target.startswith(DOCS) or place in found or not (root / target).is_file():
                continue
            found[place] = root / target
            if target.endswith(".md"):
                waiting.append(target)
    return found


def with_site_links(markdown: str, page: str, root: Path = ROOT) -> str:
    """A page whose links to files of the repository lead to their copies on the site.

    Args:
        markdown: The page.
        page: Its place on the site, such as ``guides/tracker.md`` or ``repository/README.md``.
        root: Folder of the repository.
    """
    source = page.removeprefix(COPIES) if page.startswith(COPIES) else f"{DOCS}{page}"

    def replaced(match: re.Match[str]) -> str:
        target = _resolved(source, match["path"])
        if not (root / target).is_file():
            return match[0]  # mkdocs reports it
        place = target.removeprefix(DOCS) if target.startswith(DOCS) else f"{COPIES}{target}"
        relative = posixpath.relpath(place, posixpath.dirname(page) or ".")
        return f"{match['start']}{relative}{match['end']}"

    pieces = FENCE.split(markdown)
    return "".join(piece if number % 2 else LINK.sub(replaced, piece) for number, piece in enumerate(pieces))


def _targets(source: str, markdown: str) -> Iterator[str]:
    """The files that a page links to, relative to the repository."""
    for match in LINK.finditer(FENCE.sub("", markdown)):
        yield _resolved(source, match["path"])


def _resolved(source: str, path: str) -> str:
    """The file that a link of a source leads to, relative to the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
