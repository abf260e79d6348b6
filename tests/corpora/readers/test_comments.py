import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.bugzilla import read_bugzilla
from gedbd.corpora.readers.comments import Comment, comment_links, is_bot_name
from gedbd.corpora.readers.duplicate_cells import is_duplicate_label, says_duplicate
from gedbd.corpora.readers.github import read_github

HERE = Path(__file__).parent
CASES = HERE.parent.parent / "field_cases"
READERS = {"bugzilla": bugzilla, "github": github, "gitlab": gitlab, "jira": jira}
REPOSITORIES = {"github": "github.com/owner/repo", "gitlab": "gitlab.example.org/g/p", "bugzilla": "", "jira": ""}
# Tracker, stance, the issues that are named, and the comment. "alone" names one in other words, "silent" none.
MARKS = list(csv.reader((HERE / "duplicate_marks.csv").open(encoding="utf-8", newline="")))[1:]


@pytest.mark.parametrize(("tracker", "stance", "named", "text"), MARKS)
def test_what_a_comment_says(tracker, stance, named, text):
    references = READERS[tracker].REFERENCES
    here = REPOSITORIES[tracker]
    mentions = [(key[0], stance) for key, stance in references.find(text, here)]
    assert mentions == ([] if stance in {"alone", "silent"} else [(number, stance) for number in named.split()])
    found = [comment_links([Comment(text)], references, here, is_duplicate, "") for is_duplicate in (False, True)]
    named_open, named_closed = ([link.named for link in links] for links in found)
    assert named_open == (named.split() if stance == "certain" else [])
    assert named_closed == ([] if stance in {"denied", "silent"} else named.split())


@pytest.mark.parametrize(
    ("file", "group", "nowhere"),
    [
        ("bugzilla_marks.json", [0] * 5, 0),
        ("github_bot_and_maintainer.json", [0, 1, 0], 0),
        ("github_labels.json", list(range(7)), 4),
        ("github_links.json", [0] * 6, 0),
        ("github_no_duplicates.json", list(range(6)), 0),
    ],
)
def test_the_groups_of_an_export(file, group, nowhere):
    read = read_bugzilla if file.startswith("bugzilla") else read_github
    corpus = read(None, str(CASES / file))
    assert corpus.group.tolist() == group
    warnings = [warning for warning in corpus.warnings if "the original not recognised" in warning]
    assert warnings == [f"issues closed as duplicates, the original not recognised: {nowhere} (first: 2)"] * bool(
        nowhere
    )


def test_states_and_labels_of_duplicates():
    states = (
        "Duplicate",
        "Closed (duplicate)",
        "Duplication",
        "Merged",
        "dupe",
        "Not a duplicate",
        "Ready to be merged",
    )
    assert [state for state in states if not says_duplicate(state)] == ["Not a duplicate", "Ready to be merged"]
    marks = (
        "duplicate,S-dup,kind/duplicate,*duplicate,R: Duplicate,[Status] Duplicate,:twins: duplicate,status_duplicate"
    )
    marks += (
        ",Duplicate \U0001f46f,duplicate (closed),Duplicate / Invalid,closed as duplicate,duplicate-issue,status::dupes"
    )
    assert [label for label in marks.split(",") if not is_duplicate_label(label)] == []
    others = (
        "not a duplicate,possible-duplicate,duplicate?,duplicate finder,component: duplicate finder,area/duplicates"
    )
    others += (
        ",duplicate-detection,de-duplicate,deduplicate,remove duplicate,needs-duplicate-check,bug: duplicate messages"
    )
    assert [label for label in others.split(",") if is_duplicate_label(label)] == []


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
    assert links("Duplicate of #12", bot, closed=True) == (["12"], False)
    guess = Comment("Possible duplicate: #14", bot=True)
    assert links(guess, closed=True) == (["14"], False)
    assert links(guess, bot, closed=True) == (["13"], False)
    assert links(guess, "The original is #12", closed=True) == (["12"], False)
    assert links(guess, Comment("Possible duplicate: #15", bot=True), closed=True) == ([], False)
    assert links(guess, "Not a duplicate of #14", closed=True) == ([], False)
    names = ("helper[bot]", "project_12_bot_ab34", "TriageBot", "ci-robot", "abbot", "Botond")
    assert [is_bot_name(name) for name in names] == [True] * 4 + [False] * 2


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
