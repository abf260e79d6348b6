"""Whose lines a file consists of, against an implementation that applies diffs to texts."""

import numpy as np
from small_history import added, changed, commit, hunk, tables

from gedbd.localization.change_ranking.change_history import ASSUMED_LINES, MAX_LINES, ChangeHistory, FileLines


def change(number: int, *edits: tuple[int, int, int], deleted: bool = False, shown: bool = True) -> tuple:
    return number, np.array(edits, dtype=np.int32).reshape(-1, 3), deleted, shown


def test_by_hand():
    lines = FileLines()
    lines.apply(*change(3, (0, 0, 4)))
    lines.apply(*change(5, (1, 1, 2), (3, 0, 1)))
    assert lines.lines.tolist() == [3, 5, 5, 3, 5, 3]
    commits, counts, total = lines.owners
    assert (commits.tolist(), counts.tolist(), total) == ([3, 5], [3, 3], 6)
    lines.apply(*change(6, deleted=True))
    assert lines.owners.total == 0


def test_lines_that_no_diff_shows():
    cut = FileLines()
    cut.apply(*change(2, shown=False))
    assert cut.lines.tolist() == [2] * ASSUMED_LINES
    cut.apply(*change(4, (ASSUMED_LINES + 1, 1, 1)))  # the file was longer than assumed
    assert cut.lines.tolist() == [2] * (ASSUMED_LINES + 1) + [4]
    older = FileLines()
    older.apply(*change(4, (2, 1, 1)))  # the file is older than the history
    commits, counts, total = older.owners
    assert (commits.tolist(), counts.tolist(), total) == ([4], [1], 3)


def test_hostile_places_need_no_memory():
    lines = FileLines()
    lines.apply(*change(0, (999_999_998, 1, 1)))
    lines.apply(*change(1, (5, 1, 1), (2, 1, 1)))
    assert len(lines.lines) <= MAX_LINES


def test_as_if_the_diffs_were_applied_to_texts():
    rng = np.random.default_rng(0)
    texts: list[int] = []
    lines = FileLines()
    for number in range(40):
        edits = []
        place = 0
        result: list[int] = []
        end = 0
        while place <= len(texts) and len(edits) < 3:
            place += int(rng.integers(0, 4))
            removed = int(rng.integers(0, 3))
            if place + removed > len(texts):
                break
            new = int(rng.integers(0, 4))
            edits.append((place, removed, new))
            result += texts[end:place] + [number] * new
            end = place + removed
            place = end + 1
        texts = result + texts[end:]
        lines.apply(*change(number, *edits))
        assert lines.lines.tolist() == texts


def test_lines_follow_a_renaming_and_a_deleted_file_has_none():
    first = changed("a.java", hunk(0, added("one", "two", "three")), status="A")
    renamed = changed("b.java", hunk(2, ["-two", "+second"]), status="R", old_path="a.java")
    gone = changed("b.java", hunk(1, ["-one", "-second", "-three"]), status="D")
    built = tables([commit(1, "add", first), commit(2, "rename", renamed), commit(3, "remove", gone)])
    history = ChangeHistory()
    history.add(built.commits.table, built.files.table)
    paths = history.table.paths
    path = paths.index("b.java")
    renamed_lines = history.index.owners(path, 1)
    assert history.index.owners(path, 2).total == 0
    for again in (renamed_lines, history.index.owners(path, 1)):  # the second one begins at the first change
        assert dict(zip(again.commits.tolist(), again.lines.tolist(), strict=True)) == {0: 2, 1: 1}
    # Going on from what is known is the same as beginning at the start.
    fresh = ChangeHistory()
    fresh.add(built.commits.table, built.files.table)
    assert fresh.index.owners(path, 2).total == 0
