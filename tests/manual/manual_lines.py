"""The lines of the manual's Bash blocks: those of README, CONTRIBUTING and all pages in docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s+)#.*$", flags=re.MULTILINE)


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Language and text of each code block of a page, which is named by its path in the repository."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def lines_of(page: str) -> list[str]:
    """The command lines of a page's Bash blocks, in their order and without comments."""
    lines = []
    for language, text in blocks_of(page):
        if language == "bash":
            joined = text.replace("\\\n", " ")
            lines += [" ".join(line.split()) for line in COMMENT.sub("", joined).splitlines() if line.strip()]
    return lines


ALL_PAGES = [path.relative_to(ROOT).as_posix() for path in FILES]
PAGES = [page for page in ALL_PAGES if lines_of(page)]
