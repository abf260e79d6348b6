"""The buttons for verdicts in a real browser: Chromium, headless."""

import time

import pandas as pd
import pytest
from playwright.sync_api import expect

from gedbd.experiments.report.judging import Judging, Verdict
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.triage.backtesting.judgements import read_judgements

pytestmark = pytest.mark.browser
EVIL = '=1+1,"x"'
LISTED = pd.DataFrame(
    {
        "verdict": ["", "", "not a duplicate"],
        "report": ["7", EVIL, "9"],
        "suggested": ["1", "2", "3"],
        "title of report": ["<img src=x onerror=alert(1)>", "b", "c"],
    }
)
GIVEN = (Verdict("9", "3", "reject", "2026-01-01T00:00:00.000Z"), Verdict("5", "4", "accept"))


@pytest.fixture
def written(tmp_path):
    """A page with one pair in two lists."""
    lists = [
        Section("List", "", [LISTED], asks_verdicts=True),
        Section("Again", "", [LISTED.head(1)], asks_verdicts=True),
    ]
    judging = Judging("a key", "judgements.csv", "out", "gedbd judge run=out", GIVEN)
    return write_report(tmp_path, "T", "sum", lists, judging=judging)


def states(page):
    return page.locator("td.verdict .state").all_text_contents()


def reload(page, status):
    """Reload the page until it shows ``status``: Chromium may pass on what a page stored a moment later."""
    deadline = time.monotonic() + 10
    page.reload()
    while page.get_by_role("status").text_content() != status:
        assert time.monotonic() < deadline, page.get_by_role("status").text_content()
        page.reload()


def test_verdicts_are_given_by_keyboard_kept_and_downloaded(browser, written, tmp_path):
    context = browser.new_context()
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(written.as_uri())
    assert states(page) == ["no verdict", "no verdict", "verdict: not a duplicate", "no verdict"]
    first = page.get_by_role("group", name="7 and 1").first.get_by_role("button", name="duplicate", exact=True)
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-pressed", "true")
    assert states(page)[0] == states(page)[3] == "verdict: duplicate"
    page.keyboard.press("Tab")  # to the other buttons of the row
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # to the first one of the next
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert states(page)[1] == "verdict: not a duplicate"
    page.get_by_role("group", name="9 and 3").get_by_role("button", name="not a duplicate").click()  # withdrawn
    assert states(page)[2] == "no verdict"
    status = "2 of 3 pairs have a verdict. 3 differ from those on the page as it was written."
    expect(page.get_by_role("status")).to_have_text(status)
    reload(page, status)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download judgements.csv").click()
    assert download.value.suggested_filename == "judgements.csv"
    file = tmp_path / "judgements.csv"
    download.value.save_as(file)
    read = read_judgements(file)
    assert {pair: one.verdict for pair, one in read.verdicts.items()} == {
        ("5", "4"): "accept",  # is not listed, and stays
        ("7", "1"): "accept",
        (EVIL, "2"): "reject",
    }
    assert all(one.date for pair, one in read.verdicts.items() if pair != ("5", "4"))
    assert "'=1+1" in file.read_text()
    assert said == []
    context.close()


def test_without_javascript_the_page_is_a_plain_table(browser, written):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written.as_uri())
    assert states(page) == ["no verdict", "no verdict", "not a duplicate", "no verdict"]
    assert page.locator("button:visible").count() == 0
    assert not page.locator("#judging").is_visible()
    context.close()


def test_a_later_verdict_of_the_file_replaces_the_one_that_the_browser_keeps(browser, written):
    context = browser.new_context()
    page = context.new_page()
    page.goto(written.as_uri())
    page.get_by_role("group", name="9 and 3").get_by_role("button", name="duplicate", exact=True).click()
    assert states(page)[2] == "verdict: duplicate"
    written.write_text(written.read_text().replace("2026-01-01T", "2126-01-01T"))
    page.reload()
    assert states(page)[2] == "verdict: not a duplicate"
    page.evaluate("localStorage.setItem('a key', '{damaged')")
    page.reload()
    assert states(page)[2] == "verdict: not a duplicate"
    context.close()


@pytest.mark.parametrize("width", [500, 1200])
def test_the_page_is_as_wide_as_the_window(browser, written, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(written.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    context.close()


def test_on_paper_no_table_is_cut_and_nothing_is_to_be_pressed(browser, written):
    page = browser.new_page(viewport={"width": 718, "height": 1000})  # A4 between Chromium's margins
    page.goto(written.as_uri())
    page.emulate_media(media="print")
    widest = page.evaluate(
        'Math.max(...[...document.querySelectorAll(".wide")].map(w => w.scrollWidth - w.clientWidth))'
    )
    assert widest == 0
    assert page.locator("button:visible, #judging:visible").count() == 0
