"""Variables and pairs of them in methods whose flow of data is known."""

import numpy as np
import pytest

from gedbd.code.flow_graph import NO_ROLE, FlowGraph
from gedbd.code.node_types import EdgeKind, NodeType, Role
from gedbd.tasks.code_probe.variables import draw_pairs, read_variables

CODE = "int twice(int a, int b) { int c = a; int d = b; c = c + a; d = d * c; return c + d; }"


@pytest.fixture(scope="module")
def chain():
    """Eight variables a b a b a b a b, in which data flow from each a to the next; a control node comes first."""
    names = ("", *"abababab")
    spans = np.array([[2 * number, 2 * number + 1] for number in range(9)], dtype=np.int32)
    types = np.array([NodeType.BEGIN, *[NodeType.INTEGER] * 8], dtype=np.int8)
    roles = np.array([NO_ROLE, *[Role.LOCAL] * 8], dtype=np.int8)
    # Places 1, 3, 5, 7 are a; edges 1 -> 3, 5 -> 3 (the later one first), 5 -> 7. The control edge does not count.
    edges = np.array([[0, 1, 5, 5], [1, 3, 3, 7]], dtype=np.int32)
    kinds = np.array([EdgeKind.SEQUENTIAL, *[EdgeKind.DATA] * 3], dtype=np.int8)
    return FlowGraph(names, spans, types, roles, edges, kinds)


def test_pairs_are_matched_in_name_and_distance(chain):
    pairs = draw_pairs(chain, np.arange(1, 9), np.random.default_rng(0))
    first, second = pairs.ends
    positive = pairs.label == 1
    assert sorted(zip(first[positive], second[positive], strict=True)) == [(0, 2), (2, 4), (4, 6)]
    # Same name and distance 2 or 3 without a flow: the pairs of b, which are (1, 3), (3, 5) and (5, 7).
    assert sorted(zip(first[~positive], second[~positive], strict=True)) == [(1, 3), (3, 5), (5, 7)]
    assert pairs.same_name.all()
    assert (pairs.distance == 2).all()
    assert pairs.num_unmatched == 0


def test_pairs_without_a_partner_are_counted(chain):
    # Without the last two b, there is only one pair of b left.
    pairs = draw_pairs(chain, np.array([1, 2, 3, 4, 5, 7]), np.random.default_rng(0))
    assert pairs.label.sum() * 2 == len(pairs.label)
    flows = {(0, 2), (2, 4), (4, 5)}
    chosen = {tuple(ends) for ends, label in zip(pairs.ends.T.tolist(), pairs.label, strict=True) if label}
    assert chosen <= flows
    assert pairs.num_unmatched == 3 - pairs.label.sum()


def test_variables_of_methods_are_read_whole_and_cut_where_encoders_stop():
    rng = np.random.default_rng(0)
    codes = [CODE, "void nothing() { }", "no method", CODE, CODE]
    visible = np.array([len(CODE), 100, 9, 30, len(CODE)])
    read = read_variables(np.array([7, 8, 3, 9, 10]), codes, visible, 15, rng, "read")
    assert read.num_without_graph == 1
    names = [CODE[first:last] for first, last in read.spans]
    assert names == read.names
    # 14 occurrences in the first method; of the third, those before character 30: a, b and no more.
    assert read.rows.tolist() == [7, 9]
    assert np.bincount(read.method).tolist() == [len(names) - 2, 2]
    assert names[-2:] == ["a", "b"]
    assert (read.types == NodeType.INTEGER).all()
    assert read.roles[0] == Role.PARAMETER
    assert (read.method[read.pairs.ends[0]] == read.method[read.pairs.ends[1]]).all()
    assert (read.pairs.ends[0] < read.pairs.ends[1]).all()
    assert read.pairs.surface.shape == (len(read.pairs.label), 4)
