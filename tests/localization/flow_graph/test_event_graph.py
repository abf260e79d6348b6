"""Edges derived from event graphs, against an enumeration of all paths."""

import random

import pytest

from gedbd.localization.flow_graph.event_graph import (
    FULL_DEFINITION,
    NO_DEFINITION,
    NO_KEY,
    PARTIAL_DEFINITION,
    data_edges,
    flow_edges,
    successors,
)
from gedbd.localization.flow_graph.node_types import EdgeKind


def random_graph(rng):
    """Keys, readings, definitions and predecessors of at most 8 events, with loops."""
    number = rng.randint(2, 8)
    keys = [rng.choice([NO_KEY, 1, 2]) for _ in range(number)]
    reads = [key != NO_KEY and rng.random() < 0.7 for key in keys]
    kinds = [NO_DEFINITION, FULL_DEFINITION, PARTIAL_DEFINITION]
    definitions = [NO_DEFINITION if key == NO_KEY else rng.choice(kinds) for key in keys]
    before = [sorted(rng.sample(range(number), rng.choice([0, 1, 1, 2]))) for _ in keys]
    return keys, reads, definitions, before


def simple_paths(after, path):
    """Every path that begins with one and meets no event twice, except that it may end where it begins."""
    for event in after[path[-1]]:
        yield [*path, event]
        if event not in path:
            yield from simple_paths(after, [*path, event])


def all_paths(before):
    """Every path with an edge or more."""
    after = successors(before)
    return [path for event in range(len(before)) for path in simple_paths(after, [event])]


@pytest.mark.parametrize("seed", range(40))
def test_data_follows_paths_without_another_definition_and_control_paths_of_variables(seed):
    keys, reads, definitions, before = random_graph(random.Random(seed))
    data, flow = set(), set()
    for first, *between, last in all_paths(before):
        same = keys[first] == keys[last] and first != last
        ends = [event for event in between if keys[event] == keys[first] and definitions[event] == FULL_DEFINITION]
        if same and definitions[first] != NO_DEFINITION and reads[last] and not ends:
            data.add((first, last, EdgeKind.DATA))
        if same and keys[first] == NO_KEY and all(keys[event] != NO_KEY for event in between):
            flow.add((first, last, EdgeKind.CONTROL))
        if not between and (keys[first] == NO_KEY) != (keys[last] == NO_KEY):
            flow.add((first, last, EdgeKind.SEQUENTIAL))
    assert data_edges(keys, reads, definitions, before) == (data, False)
    assert flow_edges(keys, before) == flow


@pytest.mark.parametrize("limit", ["MAX_BITS", "MAX_EDGES"])
def test_beyond_a_limit_each_reading_has_the_last_definition_before_it(limit, monkeypatch):
    # events: a = 1; a reads and defines; b reads and is never defined; a reads, reads and defines, reads
    keys = [1, 1, 2, 1, 1, 1]
    reads = [False, True, True, True, True, True]
    definitions = [FULL_DEFINITION, PARTIAL_DEFINITION, NO_DEFINITION, NO_DEFINITION, FULL_DEFINITION, NO_DEFINITION]
    before = [[], [0], [1], [2], [3], [4]]
    exact = {(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (4, 5)}
    assert data_edges(keys, reads, definitions, before) == ({(*pair, EdgeKind.DATA) for pair in exact}, False)
    monkeypatch.setattr(f"gedbd.localization.flow_graph.event_graph.{limit}", 5)
    assert data_edges(keys, reads, definitions, before) == (
        {(*pair, EdgeKind.DATA) for pair in [(0, 1), (1, 3), (1, 4), (4, 5)]},
        True,
    )
