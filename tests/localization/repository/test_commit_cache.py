import sqlite3

import pytest

from gedbd.localization.repository.commit_history import CommitCache, read_history
from gedbd.localization.repository.commits import Limits

LIMITS = Limits(max_files=30, max_file_chars=2_000, max_line_chars=100)


@pytest.fixture(scope="module")
def plain(repository):
    return list(read_history(repository[0], limits=LIMITS))


def test_a_second_reading_comes_from_the_cache_and_is_equal(repository, plain, tmp_path):
    folder, ids = repository
    first = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    assert list(first) == plain
    second = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    second.git.stream = None  # a process for an object would fail
    assert list(second) == plain
    assert second.warnings == first.warnings
    # With other limits, and for another end of the history, nothing of it is taken wrongly.
    assert list(read_history(folder, cache_dir=tmp_path)) == list(read_history(folder))
    dates = {commit.id: commit.created_at for commit in read_history(folder, ids[4], tmp_path, LIMITS)}
    assert list(dates) == [ids[0], ids[1], ids[4]]


def test_what_was_read_before_an_interruption_is_in_the_cache(repository, plain, tmp_path, monkeypatch):
    folder, ids = repository
    monkeypatch.setattr("gedbd.localization.repository.row_cache.MAX_UNSTORED", 3)
    with pytest.raises(KeyboardInterrupt):
        interrupt(read_history(folder, cache_dir=tmp_path, limits=LIMITS), 8)
    with CommitCache(tmp_path, LIMITS) as cache:
        assert len(cache.known(ids)) == 8
    assert list(read_history(folder, cache_dir=tmp_path, limits=LIMITS)) == plain


def interrupt(history, after):
    for number, _ in enumerate(history, start=1):
        if number == after:
            raise KeyboardInterrupt


def test_damaged_rows_and_files_are_read_again(repository, plain, tmp_path):
    folder, _ = repository
    list(read_history(folder, cache_dir=tmp_path, limits=LIMITS))
    with sqlite3.connect(tmp_path / "commits.sqlite") as rows:
        rows.execute("UPDATE commits SET content = substr(content, 1, 40) WHERE rowid IN (2, 3)")
    history = read_history(folder, cache_dir=tmp_path, limits=LIMITS)
    assert list(history) == plain
    assert history.warnings[-1].endswith("2 damaged commits are read again")
    assert not any("damaged" in line for line in read_again(folder, tmp_path, plain))
    (tmp_path / "commits.sqlite").write_bytes(b"no database, " * 100)
    assert any("was damaged" in line for line in read_again(folder, tmp_path, plain))


def read_again(folder, cache_dir, expected):
    history = read_history(folder, cache_dir=cache_dir, limits=LIMITS)
    assert list(history) == expected
    return history.warnings


def test_a_cache_that_cannot_be_written_is_a_one_line_error(repository, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ValueError, match="cache_dir"):
        list(read_history(repository[0], cache_dir=file))
