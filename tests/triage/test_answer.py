"""Answers for people and for programs."""

import io
import json
from dataclasses import replace

from rich.console import Console
from small_tracker import some_report

from gedbd.corpora.bug_report import Explanation, Match, Report
from gedbd.evaluation.thresholds import TargetResult
from gedbd.triage.answer import as_json, print_matches

TERMINAL = {"force_terminal": True, "color_system": "truecolor"}
WHY = Explanation(("crash",), {}, ())
LINKED = some_report(3, url="https://b.org/3")
MATCH = Match(LINKED, some_report(13), ("3", "7", "13"), 1.0, 0.9, WHY, {"3": LINKED.url, "7": "https://b.org/7"})
QUERY = Report("crash")
TARGET = TargetResult(0.7, 0.5, "met", 40, 36, 0.9, 0.76, 0.97)
NOT_MEASURED = TargetResult(0.7, None, "not measured")
NO_LISTS = TargetResult(0.7, None, "no threshold", list_length=3)


def shown(*matches, query=QUERY, target=TARGET, of_lists=NO_LISTS, width=60, marked="", **options) -> str:
    stream = io.StringIO()
    print_matches(Console(file=stream, width=width, **options), query, matches, target, of_lists, marked)
    return stream.getvalue()


def test_ids_are_links_in_a_terminal_and_addresses_are_printed_elsewhere():
    told = shown(MATCH, **TERMINAL)
    assert told.count("]8;id=") == 2
    assert ";https://b.org/3\x1b\\3\x1b]8;;" in told
    assert ";https://b.org/7\x1b\\7\x1b]8;;" in told
    assert "b.org" not in told.replace(";https://b.org/3", "").replace(";https://b.org/7", "")
    long = replace(LINKED, url="https://bugs.example.org/" + "x" * 100)
    lines = shown(replace(MATCH, master=long), replace(MATCH, master=some_report(13))).splitlines()
    assert f"3: {long.url}" in lines
    assert not any(line.startswith("13: ") for line in lines)


def test_what_is_no_web_address_never_reaches_the_terminal():
    bad = "https://b.org/\x1b]8;;https://evil.org\x1b\\"
    match = replace(MATCH, master=replace(LINKED, url=bad), urls={"3": bad, "7": "javascript:alert(1)"})
    for told in (shown(match, **TERMINAL), shown(match)):
        assert "evil.org" not in told
        assert "javascript" not in told
        assert "]8;" not in told


def test_a_match_without_anything_in_common_says_so():
    assert "nothing" not in shown(MATCH)
    nothing = replace(MATCH, explanation=Explanation((), {}, ()))
    assert "found nothing that the two reports share" in " ".join(shown(nothing).split())


def test_percentages_are_left_out_where_all_say_that_nothing_is_likely():
    unlikely = (replace(MATCH, probability=0.04, similarity=0.533), replace(MATCH, probability=0.0, similarity=0.5))
    told = " ".join(shown(*unlikely).split())
    assert "The best matches by the ranker's score:" in told
    assert " 0.53 " in told
    assert "Every probability is below 5%" in told
    assert "0%" not in told.replace("below 5%", "").replace("70%", "").replace("50%", "").replace("90%", "")
    likely = shown(replace(MATCH, probability=0.05), replace(MATCH, probability=0.0))
    assert "5%" in likely
    assert "Nothing is likely" not in likely


def test_nothing_is_said_to_be_unlikely_for_a_title_alone_or_by_other_trackers():
    unlikely = replace(MATCH, probability=0.01)
    assert "Nothing is likely to be a duplicate" in shown(unlikely, query=Report("crash", "It stops."), width=100)
    told = shown(unlikely, query=Report("crash", "It stops."), marked="7, 13", width=100)
    assert told.startswith("crash\nalready marked as duplicates: 7, 13\nNothing else is likely to be a duplicate")
    told = shown(unlikely)
    assert "Nothing is likely" not in told
    assert "a title alone says little: add a description." in " ".join(told.split())
    told = shown(replace(MATCH, probability=0.01), target=NOT_MEASURED, width=100)
    assert "very probability" not in told
    assert "Nothing is likely" not in told
    assert "Ordered by all features of the reports" in told


def test_a_probable_match_is_named_in_a_sentence():
    why = replace(WHY, reasons=("same title", "2 days apart"))
    told = " ".join(shown(replace(MATCH, explanation=why)).split())
    assert "Probably the same as 3: same title, 2 days apart." in told
    assert "Probably the same as 3." in shown(MATCH)
    assert "Probably" not in shown(replace(MATCH, probability=0.49))
    assert "Probably" not in shown(MATCH, target=NOT_MEASURED)


def test_a_list_that_reaches_its_threshold_is_told_with_its_figure():
    missed = replace(TARGET, status="missed")
    lists = replace(TARGET, threshold=0.7, list_length=3)
    three = [replace(MATCH, probability=share) for share in (0.4, 0.2, 0.1)]
    statement = f"One of the first 3 is right with a probability of 70%. {lists.evidence}"
    assert f"{statement}\nNothing is suggested automatically" in shown(*three, target=missed, of_lists=lists, width=300)
    assert json.loads(as_json(QUERY, three, missed, lists))["list_statement"] == statement
    assert json.loads(as_json(QUERY, three[:2], missed, lists))["list_statement"] == ""
    assert json.loads(as_json(QUERY, three, missed, replace(lists, threshold=0.71)))["list_statement"] == ""
    assert json.loads(as_json(QUERY, three, missed, NO_LISTS))["list_statement"] == ""
