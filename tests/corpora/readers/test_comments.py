from datetime import UTC, datetime, timedelta

import pytest

from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.comments import Comment, comment_links

CERTAIN = {
    "Duplicate of #12": ["12"],
    "duplicate of #12.": ["12"],
    "Closing as a duplicate of #12, thanks!": ["12"],
    "Dup of #12": ["12"],
    "dupe #12": ["12"],
    "This duplicates #12": ["12"],
    "Duplicate: #12": ["12"],
    "Closing as duplicate #12": ["12"],
    "**Duplicate of #12**": ["12"],
    "Duplicate of [#12](https://github.com/owner/repo/issues/12)": ["12"],
    "Duplicate of https://github.com/Owner/repo/issues/12#issuecomment-99": ["12"],
    "dup of owner/repo#12": ["12"],
    "Duplicate of GH-12": ["12"],
    "Duplicate of issue #12": ["12"],
    "Duplicate of #12 and #13": ["12", "13"],
    "Duplicates: #12, #13": ["12", "13"],
    "This is not a crash, it is a duplicate of #12": ["12"],
    "> Is it the same as #9?\n\nYes. Duplicate of #12": ["12"],
    "Duplicate of\r\nhttps://github.com/owner/repo/issues/12\r\n": ["12"],
    "#13 has been marked as a duplicate of this issue": ["13"],
    "#13 is a duplicate of this": ["13"],
}
SILENT = (
    "See #12",
    "> Duplicate of #12",
    "  > > Duplicate of #12",
    "```\nDuplicate of #12\n```",
    "~~~text\nDuplicate of #12",
    "The log says `Duplicate of #12` here",
    "Log:\n\n    Duplicate of #12\n",
    "<!-- Duplicate of #12 -->",
    "~~Duplicate of #12~~",
    "#7 is a duplicate of #12",
    "I can reproduce this with duplicate entries, see the list in #12",
    "duplicate of the report that came by mail",
    "Duplicate of #12abc",
)
DENIED = (
    "This is not the same as #12",
    "not a duplicate of #12",
    "This is not a duplicate of #12",
    "I don't think this is a duplicate of #12",
    "This isn\u2019t a dupe of #12",
    "This can't be a duplicate of #12",
    "No longer a duplicate of #12",
)
HEDGED = (
    "This is the same as #12, closing.",
    "Same problem as #12",
    "Already reported in #12.",
    "Closing in favour of #12",
    "Possible duplicate of #12",
    "This might be a duplicate of #12",
    "Looks like a dup of #12",
    "Duplicate of #12?",
    "Is this a duplicate of #12, or something else?",
    "I am not sure whether it is a duplicate of #12",
    "Duplicate of #12, I think",
)


def find(text: str, references=github.REFERENCES) -> list[tuple[str, str]]:
    return [(mention.named, mention.stance) for mention in references.find(text)]


@pytest.mark.parametrize(("text", "named"), CERTAIN.items())
def test_what_counts(text, named):
    assert find(text) == [(number, "certain") for number in named]


@pytest.mark.parametrize("text", SILENT)
def test_what_says_nothing_about_this_issue(text):
    assert find(text) == []


@pytest.mark.parametrize("text", DENIED)
def test_what_is_denied(text):
    assert find(text) == [("12", "denied")]


@pytest.mark.parametrize("text", HEDGED)
def test_what_is_a_guess(text):
    assert find(text) == [("12", "hedged")]


@pytest.mark.parametrize(
    ("tracker", "text", "named"),
    [
        (bugzilla, "*** This bug has been marked as a duplicate of bug 12 ***", "12"),
        (bugzilla, "dup of bug #12", "12"),
        (gitlab, "marked this issue as a duplicate of #12", "12"),
        (gitlab, "marked #12 as a duplicate of this issue", "12"),
        (gitlab, "Duplicate of https://gitlab.example.org/a/b/c/-/issues/12#note_4", "12"),
        (jira, "Duplicate of ABC-12.", "ABC-12"),
        (jira, "Duplicates https://jira.example.org/browse/ABC_D-12", "ABC_D-12"),
    ],
)
def test_other_trackers_write_it_their_way(tracker, text, named):
    assert find(text, tracker.REFERENCES) == [(named, "certain")]


def test_jira_markup_is_seen_through():
    quoted = "{quote}Duplicate of ABC-1{quote} {code:java}Duplicate of ABC-2{code}\nbq. Duplicate of ABC-3\nWorks here."
    assert find(quoted, jira.REFERENCES) == []


def links(*comments: str | Comment, here: str = "github.com/owner/repo", closed: bool = False):
    spoken = [comment if isinstance(comment, Comment) else Comment(comment) for comment in comments]
    found = comment_links(spoken, github.REFERENCES, here, closed, "comment")
    return [link.named for link in found if not link.project], any(link.project for link in found)


def test_what_is_said_last_counts():
    assert links("Duplicate of #12", "Sorry, not a duplicate of #12") == ([], False)
    assert links("Not a duplicate of #12", "It is after all: duplicate of #12") == (["12"], False)
    assert links("Duplicate of #12", "Possible duplicate of #12") == (["12"], False)


def test_guesses_and_bots_count_once_the_issue_is_closed_as_a_duplicate():
    bot = Comment("Duplicate of #13", bot=True)
    assert links("Possible duplicate of #12", bot) == ([], False)
    assert links("Possible duplicate of #12", bot, closed=True) == (["12", "13"], False)
    assert links("Possible duplicate of #12", "Not a duplicate of #12", closed=True) == ([], False)


def test_in_any_words_the_last_comment_before_closing_counts_a_member_s_first():
    closed_at = datetime(2024, 1, 5, 10, tzinfo=UTC)

    def original(*said: tuple[int, str, bool]) -> list[str]:
        comments = [
            Comment(text, member=member, written_at=closed_at + timedelta(hours=hours)) for hours, text, member in said
        ]
        found = comment_links(comments, github.REFERENCES, "o/r", True, "comment", closed_at)
        return [link.named for link in found]

    assert original((-3, "The original is #1", False), (-2, "See #2", False), (1, "See also #3", False)) == ["2"]
    assert original((-3, "The original is #1", True), (-2, "See #2", False), (1, "See also #3", True)) == ["1"]
    assert original((1, "See also #3", False)) == ["3"]
    assert original((0, "See #1", False), (0, "It says > #2", False)) == ["2"]


def test_other_repositories_are_dropped_and_told():
    assert links("Duplicate of other/thing#12") == ([], True)
    assert links("Duplicate of https://github.com/other/repo/issues/12") == ([], True)
    assert links("Duplicate of https://elsewhere.org/owner/repo/issues/12") == ([], True)
    assert links("Possible duplicate of other/thing#12") == ([], False)
    assert links("Duplicate of owner/repo#12", here="") == ([], True)
