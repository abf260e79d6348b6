"""Strings in arrays are found as in a dictionary."""

from copy import copy
from zlib import crc32

import numpy as np

from gedbd.triage.storage.string_table import Ids, StoredVocabulary, StringTable, as_arrays

SAME_HASH = ["plumless", "buckeroo"]
STRINGS = ["", "crash", "Löschen", *SAME_HASH, "a b", "crash2"]


def table(strings):
    return StringTable(as_arrays(strings))


def test_every_string_is_found_and_no_other():
    assert crc32(SAME_HASH[0].encode()) == crc32(SAME_HASH[1].encode())
    for strings in (STRINGS, STRINGS[::-1], []):
        stored = table(strings)
        assert [stored[number] for number in range(len(stored))] == strings
        assert [stored.find(one) for one in strings] == list(range(len(strings)))
        assert stored.find("cras") is None
        assert stored.find_all([*strings, "cras"]) == [*range(len(strings)), None]
    assert table(SAME_HASH[:1]).find(SAME_HASH[1]) is None


def test_a_vocabulary_continues_a_table():
    vocabulary = StoredVocabulary(table(["mail", "lost"]))
    vocabulary.extend(["folder"])
    (numbers,) = vocabulary([["lost", "crash", "folder", "crash", "mail"]], learn=True)
    assert numbers.tolist() == [1, 3, 2, 3, 0]
    assert [vocabulary[number] for number in range(4)] == ["mail", "lost", "folder", "crash"]
    assert vocabulary.since(3) == ["crash"]
    vocabulary.forget(3)
    (numbers,) = vocabulary([["crash", "folder"]], learn=False)
    assert numbers.tolist() == [-1, 2]


def test_ids_are_found_after_changes():
    ids = Ids(table(["a", "b", "c"]))
    grown = copy(ids)
    grown.add(["d", "e"])
    left = grown.without(np.array([False, True, False, True, False]))
    again = copy(left)
    again.add(["b"])
    for found, expected in ((ids, "abc"), (grown, "abcde"), (left, "ace"), (again, "aceb")):
        assert [found[row] for row in range(len(found))] == list(expected)
        assert found.rows(list(expected)) == list(range(len(expected)))
        assert all(one not in found for one in set("abcdef") - set(expected))
