"""The ranker and the fixed reports of a tracker."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from small_history import DAY, START, changed, commit, history_of, hunk

from gedbd.localization import change_ranking
from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.change_ranking.change_ranker import default_ranker
from gedbd.localization.change_ranking.file_features import KnownFix, KnownFixes
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.locating.repository_index import OTHER_HISTORY
from gedbd.localization.locating.tracker_ranker import (
    DEFAULT_MEASURED,
    FIXES,
    HIT_RATE,
    NOT_MEASURED,
    RANKER,
    TrackerRanker,
    fixes_as_json,
    read_fixes,
)

FIX = KnownFix("alpha breaks", "in Alpha", START + DAY * 31, (f"{2:040x}",))


def make_history(count):
    """Commits that change Alpha.java, one a day."""
    change = changed("Alpha.java", hunk(1, ["-int alpha;", "+int alpha = 1;"]))
    return history_of([commit(number, "Alpha", change) for number in range(count)])


def test_the_default_ranker_is_said_to_be_as_good_as_its_card_says():
    card = (Path(change_ranking.__file__).parent / "default_ranker.md").read_text(encoding="utf-8")
    of_files, _, _ = card.partition("Commits are ranked")
    rows = re.findall(r"^\| \w+ \| \w+ \| \d.*$", of_files, flags=re.MULTILINE)
    hits = [float(row.split(" | ")[7]) for row in rows]
    assert [f"{hit:.0%}" for hit in hits] == re.findall(r"\d+%", DEFAULT_MEASURED)


def stored(folder, change_of_list=None, change_of_fix=None, hit_rate=None):
    """Writes a folder of a backtest with one fix, and reads it."""
    fixes = json.loads(fixes_as_json([FIX]))
    fixes["fixes"][0] |= change_of_fix or {}
    (folder / RANKER).write_text(default_ranker().to_text())
    (folder / FIXES).write_text(json.dumps(fixes | (change_of_list or {})))
    if hit_rate is not None:
        (folder / HIT_RATE).write_text(json.dumps(hit_rate))
    return TrackerRanker.read(folder)


def test_fixes_and_statements_are_stored_to_the_letter(tmp_path):
    assert stored(tmp_path).fixes == [FIX]
    assert stored(tmp_path).statement == NOT_MEASURED
    assert stored(tmp_path, hit_rate={"files": {"statement": "a"}, "statement": "b"}).statement == "a b"
    assert read_fixes(fixes_as_json([])) == []
    (tmp_path / RANKER).unlink()
    with pytest.raises(ValueError, match=f"has no {RANKER}"):
        TrackerRanker.read(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        *({"change_of_list": change} for change in ({"format": 1}, {"fixes": 3}, {"fixes": [{"title": 3}]})),
        *({"change_of_fix": change} for change in ({"known_at": "2020-02-01"}, {"known_at": "soon"}, {"fixing": [1]})),
        *({"hit_rate": rate} for rate in ([], {"statement": "b"}, {"files": {"statement": 3}, "statement": "b"})),
    ],
)
def test_damaged_files_are_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="is damaged"):
        stored(tmp_path, **changes)


def test_the_ranker_reads_the_fixes_of_the_history_that_is_asked_for():
    ranker = default_ranker()
    query = ChangeQuery("alpha breaks again", "")
    both = TrackerRanker(ranker, [FIX])
    for history in (make_history(5), make_history(8)):
        expected = ranker.find_in(query_features(history, query, KnownFixes(history, [FIX])), 5)
        found = ranker.find_in(query_features(history, query, both.known_fixes(history)), 5)
        assert [suspect.row for suspect in found] == [suspect.row for suspect in expected]
        np.testing.assert_array_equal([one.score for one in found], [one.score for one in expected])


@pytest.mark.integration
def test_a_ranker_of_another_history_is_told_once(repository, open_index, index_of):
    fix = FIX._replace(fixing=tuple(index_of(repository).history.ids[:1]))
    for fixes, num_told in (([], 0), ([fix], 0), ([FIX], 1)):
        index = open_index(repository)
        index.ranker = TrackerRanker(default_ranker(), fixes)
        assert index.update().warnings == (OTHER_HISTORY,) * num_told
        assert index.update().warnings == ()
