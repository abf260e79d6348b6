"""The report in a real browser: Chromium, headless."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from run_commands import commands_in

import gedbd

pytestmark = pytest.mark.browser

PROBE = """<script>
addEventListener("load", () => {
  const images = [...document.images];
  const anchors = [...document.querySelectorAll("nav a")].map(a => a.getAttribute("href").slice(1));
  document.body.dataset.seen = JSON.stringify({
    images: images.length,
    drawn: images.filter(i => i.naturalWidth > 100 && i.clientWidth <= document.body.clientWidth).length,
    unnamed: images.filter(i => !i.alt).length,
    anchors: anchors.length,
    lost: anchors.filter(a => !document.getElementById(a)).length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    page: getComputedStyle(document.body).backgroundColor,
    wide: [...document.querySelectorAll(".wide")].filter(w => w.scrollWidth > w.clientWidth).length,
    requests: performance.getEntriesByType("resource").filter(e => !e.name.startsWith("data:")).length,
  });
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with commands_in(folder) as run:
        run("train", "encoder=tiny", "trainer=smoke", "hydra.run.dir=run")
        run("report", "paths=[run]")
    probed = folder / "probed.html"
    probed.write_text((folder / "run" / "report.html").read_text().replace("</body>", f"{PROBE}</body>"))
    return probed


def look(page: Path, width: int, profile: Path, *more_flags: str) -> dict[str, Any]:
    """Opens the page and gives what the probe has seen."""
    browser = shutil.which("chromium")
    assert browser, "no Chromium here: make browser installs it"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += more_flags
    command = [browser, *flags, f"--user-data-dir={profile}", f"--window-size={width},900", "--dump-dom", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r'data-seen="(.*?)"', dom)
    assert found, dom[-2000:]
    return json.loads(unescape(found[1]))


def test_page_is_dark_where_the_reader_wants_it(page, tmp_path):
    dark = look(page, 1200, tmp_path / "dark", "--blink-settings=preferredColorScheme=0")
    light = look(page, 1200, tmp_path / "light", "--blink-settings=preferredColorScheme=1")
    assert (dark["page"], light["page"]) == ("rgb(18, 24, 30)", "rgb(255, 255, 255)")


@pytest.mark.parametrize("width", [500, 1200])
def test_page_shows_everything_at_any_width(page, tmp_path, width):
    seen = look(page, width, tmp_path)
    assert seen["images"] >= 5
    assert seen["drawn"] == seen["images"]
    assert seen["anchors"] >= 6
    assert seen["wide"] or width > 600  # tables scroll inside the page
    assert {seen[name] for name in ("unnamed", "lost", "overflow", "requests")} == {0}


def test_shared_words_of_any_language_are_marked(tmp_path):
    source = (Path(gedbd.__file__).parent / "service/page/text.js").read_text(encoding="utf-8").replace("export ", "")
    mine, theirs = "RÄNDER gross. 打开文件失败", "ra\u0308nder GROß 请打开文件 失败 ok"
    page = tmp_path / "page.html"
    page.write_text(
        f"<meta charset=utf-8><p id=p></p><script type=module>{source}\n"
        f"fill(document.getElementById('p'), {json.dumps(theirs)}, shared({json.dumps(mine)}, {json.dumps(theirs)}));\n"
        "document.body.dataset.seen = JSON.stringify(document.getElementById('p').innerHTML);</script>"
    )
    marked = "<mark>ränder</mark> <mark>GROß</mark> 请<mark>打开文件</mark> <mark>失败</mark> ok"
    assert look(page, 800, tmp_path / "profile") == marked
