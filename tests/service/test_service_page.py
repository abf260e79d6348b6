"""The page in a real browser: Chromium, headless."""

from dataclasses import replace
from pathlib import Path

import pytest
from git_repository import FastImport
from playwright.sync_api import Browser, Page, expect
from small_index import EVIL, FIGURE, TARGETS
from small_repository import NAMES, make_repository
from webhook_events import OUTCOMES, SENTENCE, SUGGESTED, WEEK_EVENTS

from gedbd.corpora.feedback import feedback_table
from gedbd.service.app import create_app
from gedbd.service.middleware import Settings
from gedbd.service.suspects import SuspectFinder, open_suspects
from gedbd.service.webhook import Webhook

pytestmark = pytest.mark.browser
TITLE = "Sending a large attachment stops at half"
LOST = "Undo after the draft is saved empties the message"
TOKEN = "a token of some length"


@pytest.fixture
def opened(browser: Browser, index, listening):
    """Opens the page and keeps what it asks for and what the console says."""
    contexts = []

    def open_page(
        width: int = 1200,
        scheme: str = "light",
        over=index,
        suspects: SuspectFinder | None = None,
        webhook: Webhook | None = None,
        **settings,
    ) -> Page:
        port = listening(create_app(over, Settings(**settings), webhook, suspects))
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked, page.home = [], [], f"http://127.0.0.1:{port}/"
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(page.home)
        return page

    yield open_page
    for context in contexts:
        context.close()


def overflow(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def rows(index) -> list[tuple[str, str, str]]:
    table = feedback_table(index.folder)
    return list(table[["title", "candidate", "verdict"]].itertuples(index=False, name=None))


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_a_duplicate_is_found_compared_and_accepted(opened, stored_index, width, scheme):
    page = opened(width, scheme, over=stored_index)
    page.fill("#title", LOST)
    page.fill("#description", "Ctrl+Z after an autosave empties the message body.\n<b>Steps</b>: write, wait, undo.")
    page.fill("#component", "compose")
    first = page.get_by_role("option").first
    expect(first).to_contain_text("Duplicates: #1284, #1475, #1782, #2457")
    assert overflow(page) == 0
    first.click()
    page.select_option("#member", "1058")
    expect(page.locator("#stored-title")).to_have_text(stored_index.get("1058").title)
    expect(page.locator("#stored-text")).to_contain_text(stored_index.get("1058").description[:40])
    expect(page.locator("#stored-text mark").first).to_be_visible()
    assert overflow(page) == 0
    page.click("#accept")
    expect(page.locator("#toast")).to_contain_text("duplicate of #1058")
    expect(first).to_contain_text("Your feedback: duplicate of #1058")
    assert rows(stored_index) == [(LOST, "1058", "accept")]
    page.click("#undo")
    expect(page.locator("#toast")).to_contain_text("Undone")
    assert rows(stored_index) == []
    assert page.said == []
    assert all(url.startswith(page.home) for url in page.asked)


def test_what_reaches_the_threshold_is_told_from_the_rest(opened):
    page = opened()
    page.fill("#title", "attachment large calendar large sending")
    options = page.get_by_role("option")
    expect(options.first).to_contain_text("Likely a duplicate: above the threshold")
    expect(options.nth(1)).to_contain_text("below the threshold")
    expect(page.locator("#threshold")).to_have_text(f"Suggested from a probability of 60%. {FIGURE}")
    options.first.click()
    expect(page.locator("#comparison-odds")).to_have_text("probability 75%, above the threshold")


def test_where_nothing_is_likely_the_similarity_is_shown(opened, index):
    search = index.search
    index.search = lambda *asked, **options: [
        replace(match, probability=0.01, similarity=0.423) for match in search(*asked, **options)
    ]
    page = opened()
    page.fill("#title", "large attachment sending stops")
    expect(page.get_by_role("option").first).to_contain_text("similarity 0.42")
    expect(page.locator("#status")).to_contain_text("none of them likely to be a duplicate")


def test_nothing_is_marked_where_the_backtest_missed_its_target(opened, index):
    index.target = TARGETS[2]
    page = opened()
    page.fill("#title", "large attachment sending stops")
    expect(page.get_by_role("option").first).to_contain_text("100%")
    expect(page.locator("#threshold")).to_have_text(f"{TARGETS[2].statement} Check each candidate yourself.")
    expect(page.locator(".suggested")).to_have_count(0)
    expect(page.get_by_text("Likely a duplicate")).to_have_count(0)


def test_all_of_it_goes_by_keyboard(opened, index):
    page = opened()
    page.keyboard.type("large attachment sending stops at half")
    expect(page.get_by_role("option")).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("#comparison")).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(page.locator("#comparison")).to_be_hidden()
    page.keyboard.press("r")
    expect(page.locator("#toast")).to_contain_text("not a duplicate")
    assert [row[2] for row in rows(index)] == ["reject"]
    page.keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text("Saved: duplicate")
    page.keyboard.press("u")
    expect(page.locator("#toast")).to_contain_text("Undone")
    assert [row[2] for row in rows(index)] == ["reject"]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "description"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert page.said == []


def test_markup_in_reports_stays_text_and_what_is_no_web_address_no_link(opened):
    page = opened()
    page.fill("#title", "attachment preview breaks")
    first = page.get_by_role("option").first
    expect(first).to_contain_text("#31")
    expect(first).to_contain_text(EVIL)
    assert first.locator("a").count() == 0
    first.click()
    expect(page.locator("#stored-head")).to_have_text("Stored report #31")
    assert page.locator("#stored-head a").count() == 0
    assert "javascript" not in page.content()
    expect(page.locator("#stored-text")).to_contain_text("<script>window.bitten=1</script>")
    assert page.evaluate("window.bitten") is None
    assert page.locator("main img, dialog img, dialog script").count() == 0
    assert page.said == []


def test_a_token_is_asked_for_and_kept_for_the_tab(opened):
    page = opened(token=TOKEN)
    page.fill("#title", TITLE)
    expect(page.locator("#token-dialog")).to_be_visible()
    page.fill("#token", "a wrong one")
    page.keyboard.press("Enter")
    expect(page.locator("#token-problem")).to_have_text("This token was not accepted.")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("option").first).to_be_visible()
    page.reload()
    page.fill("#title", TITLE)
    expect(page.get_by_role("option").first).to_be_visible()
    expect(page.locator("#token-dialog")).to_be_hidden()


def test_what_goes_wrong_is_said_in_plain_words(opened):
    page = opened()
    page.route("**/api/search", lambda route: route.abort())
    page.fill("#title", TITLE)
    expect(page.get_by_role("alert").first).to_contain_text("cannot be reached")
    busy = {"status": 503, "json": {"detail": "too many requests are waiting"}}
    page.unroute("**/api/search")
    page.route("**/api/search", lambda route: route.fulfill(**busy))
    page.click("#again")
    expect(page.get_by_role("alert").first).to_contain_text("The service is busy: too many requests are waiting")
    page.unroute("**/api/search")
    page.click("#again")
    expect(page.get_by_role("option").first).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()
    page.fill("#title", "zzzzzz")
    expect(page.locator("#empty")).to_contain_text("This may be a new bug")


def test_a_late_answer_never_replaces_a_newer_one(opened):
    page = opened()
    held = []
    page.route("**/api/search", lambda route: held.append(route) if not held else route.continue_())
    page.fill("#title", "calendar week")
    page.wait_for_timeout(300)
    assert len(held) == 1
    page.fill("#title", "large attachment")
    expect(page.get_by_role("option").first).to_contain_text("#12")
    expect(page.locator("#candidates")).not_to_contain_text("Calendar")


def test_a_late_failure_never_replaces_the_report_chosen_since(opened, index):
    page = opened()
    held = []
    page.route("**/api/reports/12", lambda route: held.append(route))
    page.fill("#title", TITLE)
    page.get_by_role("option").first.click()
    expect(page.locator("#stored-title")).to_have_text("Loading …")
    page.select_option("#member", "15")
    expect(page.locator("#stored-title")).to_have_text(index.get("15").title)
    held[0].abort()
    page.wait_for_timeout(50)
    expect(page.locator("#stored-title")).to_have_text(index.get("15").title)
    expect(page.locator("#comparison-problem")).to_be_hidden()


PAGE_12 = "https://bugs.example.org/show_bug.cgi?id=12&a=b"


def opens(page: Page, act) -> Page:
    """The tab that something opens, with the tracker's page in it."""
    page.context.route("https://bugs.example.org/**", lambda route: route.fulfill(body="the tracker"))
    with page.context.expect_page() as waited:
        act()
    waited.value.wait_for_load_state()
    return waited.value


@pytest.mark.parametrize("width", [360, 1200])
def test_ids_lead_to_the_tracker(opened, width):
    page = opened(width)
    page.fill("#title", "large attachment, error shown when")
    first = page.get_by_role("option").first
    links = first.locator("a")
    expect(links).to_have_text(["#12", "#15", "#15"])  # the oldest, its duplicate, the closest
    tab = opens(page, links.first.click)
    assert tab.url == PAGE_12
    assert tab.evaluate("[window.opener, document.referrer]") == [None, ""]
    expect(page.locator("#comparison")).to_be_hidden()
    assert overflow(page) == 0
    first.locator(".title").click()
    expect(page.locator("#stored-head")).to_have_text("Stored report #15")
    assert opens(page, page.locator("#stored-head a").click).url == "https://bugs.example.org/15"
    page.select_option("#member", "12")
    expect(page.locator("#stored-head a")).to_have_attribute("href", PAGE_12)
    assert page.locator("#stored-head a").get_attribute("rel") == "noopener noreferrer"
    assert page.said == []


def test_the_tracker_is_reached_by_keyboard(opened):
    page = opened()
    page.keyboard.type("large attachment, error shown when")
    expect(page.get_by_role("option")).to_have_count(2)
    page.keyboard.press("Escape")
    assert opens(page, lambda: page.keyboard.press("o")).url == PAGE_12
    page.keyboard.press("Enter")
    expect(page.locator("#stored-head a")).to_be_visible()
    assert opens(page, lambda: page.keyboard.press("o")).url == "https://bugs.example.org/15"
    reached = set()
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('href')"))
    assert "https://bugs.example.org/15" in reached
    page.keyboard.press("Escape")
    page.fill("#title", "calendar week")
    expect(page.get_by_role("option").first).to_contain_text("#20")
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    assert len(page.context.pages) == 3
    assert page.said == []


@pytest.mark.parametrize("width", [360, 1200])
def test_suspect_commits_stand_below_the_candidates(opened, tmp_path: Path, width):
    make_repository(tmp_path / "project.git", 4)
    finder = open_suspects(str(tmp_path / "project.git"), None, str(tmp_path / "cache"))
    finder.update()
    page = opened(width, suspects=finder)
    suspects = page.locator("#suspects")
    expect(suspects).to_be_hidden()
    page.fill("#title", f"Large attachment: {NAMES[1]}Reader loses a line in count{NAMES[1]}")
    expect(page.get_by_role("option").first).to_be_visible()
    expect(page.locator("#suspects-note")).to_contain_text("4 source files and 12 commits of project.git were ranked.")
    expect(page.locator("#suspects-note")).to_contain_text("was not measured on this tracker")
    first = page.locator("#suspect-list li", has_text=f"{NAMES[1]}Reader").first
    expect(first).to_contain_text(f"{NAMES[1]}Reader")
    first.locator("summary").first.click()
    expect(first.locator("pre").first).to_be_visible()
    expect(first.locator("pre mark").first).to_be_visible()
    first = page.locator("#file-list li").first
    expect(first).to_contain_text(f"{NAMES[1]}Reader.java")
    expect(first).to_contain_text("named in the report")
    first.locator("summary").first.click()
    expect(first.locator("pre mark").first).to_be_visible()
    assert overflow(page) == 0
    page.fill("#title", "")
    expect(suspects).to_be_hidden()
    assert not page.said


def test_texts_of_commits_are_shown_as_texts(opened, tmp_path: Path):
    repo = tmp_path / "project.git"
    make_repository(repo, 1)
    path = "<img src=x onerror=window.bitten=1>.txt"
    made = FastImport(start=1_700_000_000)
    made.commit(EVIL, [(path, EVIL.encode())], parents=["refs/heads/main^0"])
    made.write(repo)
    finder = open_suspects(str(repo), None, str(tmp_path / "cache"))
    finder.update()
    page = opened(suspects=finder)
    page.fill("#title", "The attachment preview breaks")
    first = page.locator("#suspect-list li", has_text=EVIL).first
    expect(first).to_contain_text(path)
    first.locator("summary").first.click()
    expect(first.locator("pre mark").first).to_be_visible()
    assert page.evaluate("window.bitten") is None
    assert page.locator("#suspects img").count() == 0
    assert not page.said


@pytest.mark.parametrize("width", [360, 1200])
def test_suggestions_so_far_are_listed_with_their_outcomes(opened, hook_of, width):
    hook = hook_of(suggest="shadow")
    for event, kind in WEEK_EVENTS:
        hook.receive(kind, event)
    page = opened(width, webhook=hook)
    page.get_by_text("Suggested so far").click()
    expect(page.locator("#suggestions-note")).to_have_text(f"{hook.how_to_write()} {SENTENCE}")
    found = [row.inner_text().split("\t") for row in page.locator("#suggestions-table tbody tr").all()]
    expected = [[f"#{number}", f"#{best}", OUTCOMES[number]] for number, best in reversed(SUGGESTED.items())]
    assert [[row[0], row[2], row[4]] for row in found] == expected
    assert overflow(page) <= 0
    assert page.said == []


def test_a_page_without_repository_and_webhook_asks_for_neither_commits_nor_suggestions(opened):
    page = opened()
    expect(page.locator("#tracker")).to_contain_text("reports")
    page.fill("#title", TITLE)
    expect(page.get_by_role("option").first).to_be_visible()
    expect(page.locator("#suspects")).to_be_hidden()
    expect(page.locator("#suggestions")).to_be_hidden()
    assert not any("api/locate" in address or "api/suggestions" in address for address in page.asked)
