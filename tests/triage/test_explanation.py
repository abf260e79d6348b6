"""What speaks for a match, on cases worked out by hand."""

import math

import numpy as np
import pytest

from gedbd.corpora.bug_report import Report
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.triage.explanation import SharedLine, equal_fields, explain, reasons

RARE = {"uidplus": 5.0, "npe": 4.0, "expunge": 3.0, "server": 1.0, "folder": 1.0}


def rarity(words):
    return np.array([RARE.get(word, 0.0) for word in words])


def why(first, second, weigh=rarity):
    (found,) = explain(first, [second], weigh)
    return found


def test_fields_that_agree_and_the_rarest_shared_words_come_first():
    mine = Report("Expunge fails", "The server lacks UIDPLUS, and the folder is full.")
    theirs = Report("Folder not expunged", "uidplus: the SERVER says no to expunge")
    assert why(mine, theirs).terms == ("uidplus", "expunge", "folder", "server")
    assert why(Report("x", "a\nNPE\nb"), Report("Some NPE or other")).terms == ("npe",)
    assert why(Report("NPE"), Report("NPE")).sentences == ()
    first = Report("a", product="Mail", component="UI ", version="3.0", os="", priority="P1", status="NEW")
    second = Report("b", product="mail", component="ui", version="3.1", os="", priority="P1", status="NEW")
    assert equal_fields(first, second) == {"product": "mail", "component": "ui", "priority": "P1"}
    assert equal_fields(Report("a"), Report("b")) == {}


def test_closest_sentences_by_hand():
    mine = Report("Server lacks UIDPLUS", "The folder stays full. Nothing else to say here.")
    theirs = Report("Folder is too full", "Our server has no uidplus and no npe!\nfolder, expunge")
    # (server 1 + uidplus 5) twice, over 6 and 10; folder twice, over 1 and 1; the line with expunge: 2 over 1 and 4
    assert why(mine, theirs).sentences == (
        ("The folder stays full.", "Folder is too full", 1.0),
        ("Server lacks UIDPLUS", "Our server has no uidplus and no npe!", 0.75),
    )


def test_chinese_sentences_and_shared_phrases():
    mine = Report("保存时崩溃", "打开编辑器。保存大文件！程序立即崩溃了吗？是的")
    theirs = Report("编辑器打开文件", "程序立即崩溃。「请修复！」谢谢")
    found = why(mine, theirs, lambda words: np.ones(len(words)))
    assert found.terms == ("打开", "文件", "程序立即崩溃", "编辑器")
    # The first two have 5 and 7 pairs and share 5; the others have 4 and 6, and share 打开, 编辑 and 辑器.
    assert found.sentences == (
        ("程序立即崩溃了吗？", "程序立即崩溃。", round(2 * 5 / 12, 3)),
        ("打开编辑器。", "编辑器打开文件", round(2 * 3 / 10, 3)),
    )


@pytest.mark.parametrize("empty", [Report("", ""), Report("  ", "\n \n"), Report("...", "!!! ???\n---")])
def test_reports_without_words(empty):
    for first, second in ((empty, Report("uidplus gone")), (Report("uidplus gone"), empty), (empty, empty)):
        found = why(first, second)
        assert (found.terms, found.sentences) == ((), ())


@pytest.mark.parametrize(
    "text", ["word " * 40_000, "x" * 200_000, "\n" * 200_000, "a. " * 66_666, "server uidplus\n" * 13_333]
)
def test_of_long_descriptions_only_the_beginning_is_read(text):
    found = explain(Report("server", text), [Report("server", text)] * 50, rarity)
    assert all(len(one.sentences) <= 3 for one in found)


VALUES = dict.fromkeys(FEATURES, 0.0) | {
    "days": math.log1p(2),
    "same component": 1.0,
    "same product": 0.0,
    "title shared": 3.5,
    "group size": math.log(4),
}


def test_families_by_what_they_added():
    added = {"text z": 0.3, "dense behind": 0.2, "same component": 0.4, "days": 0.1, "identifiers shared": 0.8}
    found = reasons(added, VALUES, ["NullPointerException", "a.b.C", "x.py", "y.py"], None)
    assert found == (
        "shared NullPointerException, a.b.C, x.py, ...",
        "similar text",
        "same component",
        "2 days apart",
    )


def test_what_is_no_fact_or_makes_no_reports_alike_is_left_out():
    added = {"same product": 1.0, "errors shared": 1.0, "title z": -0.5, "same component": 1.0, "text z": 0.01}
    assert reasons(added, VALUES, [], None) == ("same component",)
    added = {"open": 1.0, "days": 1.0, "group size": 1.0}
    assert reasons(added, VALUES, [], None) == ()
    assert len(reasons(added | {"text z": 0.5}, VALUES, [], None)) == 3


def test_a_rare_error_line_comes_first_with_its_frequency():
    values = VALUES | {"same title": 1.0, "days": math.nan}
    added = {"errors shared": 0.1, "title": 0.5, "days": 0.4}
    line = SharedLine("cannot open mailbox 0", 3, 36_387)
    assert reasons(added, values, [], line) == (
        'same error "cannot open mailbox 0", in 3 of 36,387 reports',
        "same title",
    )
    # 36 is a thousandth of 36,387; in a small tracker five reports may have a line.
    assert reasons(added, values, [], line._replace(frequency=36))[0].startswith("same error")
    assert reasons(added, values, [], line._replace(frequency=37)) == ("same title",)
    assert reasons(added, values, [], line._replace(frequency=5, num_reports=20))[0].startswith("same error")
    assert reasons(added, values, [], line._replace(frequency=6, num_reports=20)) == ("same title",)


def test_days_are_worded():
    added = {"days": 1.0, "same component": 0.5}
    for days, said in ((0.2, "less than a day apart"), (1, "1 day apart"), (7.4, "7 days apart")):
        assert reasons(added, VALUES | {"days": math.log1p(days)}, [], None) == (said, "same component")
    for days in (7.6, 1500):  # that is no reason
        assert reasons(added, VALUES | {"days": math.log1p(days)}, [], None) == ("same component",)


@pytest.mark.parametrize(
    "line", ["</Window>", "if(image) {", "```java", "{code:title=app.js}", "import uidplus.npe;", "## Steps", "Steps:"]
)
def test_code_and_headings_are_not_quoted(line):
    mine = Report("a", f"{line}\nThe server lacks uidplus")
    theirs = Report("b", f"The server lacks uidplus\n{line}")
    found = why(mine, theirs, lambda words: np.ones(len(words)))
    assert [pair[:2] for pair in found.sentences] == [("The server lacks uidplus", "The server lacks uidplus")]
