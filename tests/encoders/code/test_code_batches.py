"""Padding of a batch, and where its blocks and edges are."""

import numpy as np

from gedbd.encoders.code.code_inputs import CodeEdges, CodeInput, collate

EMPTY = np.zeros((2, 0), dtype=np.int32)


def one(length: int, blocks: list[list[int]], node_node: list[list[int]]) -> CodeInput:
    edges = CodeEdges(EMPTY, np.array(node_node, dtype=np.int32).reshape(2, -1), EMPTY, EMPTY)
    return CodeInput(np.arange(10, 10 + length, dtype=np.int32), np.array(blocks, dtype=np.int32), edges, pad_id=1)


def test_inputs_are_padded_and_edges_get_the_row_of_their_input() -> None:
    first = one(4, [[1, 0], [2, 1], [0, 0], [0, 0], [0, 0]], [])
    second = one(6, [[1, 1], [3, 1], [0, 0], [0, 0], [0, 0]], [[4, 5], [5, 5]])
    batch = collate([first, second], rows=[7, 3])
    assert batch.n_id.tolist() == [7, 3]
    assert batch.input_ids.tolist() == [[10, 11, 12, 13, 1, 1], [10, 11, 12, 13, 14, 15]]
    assert batch.lengths.tolist() == [4, 6]
    assert batch.is_token.sum(1).tolist() == [4, 6]
    assert batch.edges.node_node.tolist() == [[1, 1], [4, 5], [5, 5]]
    assert batch.edges.code_node.shape == (3, 0)
    assert batch.inside("code").nonzero().tolist() == [[0, 2], [1, 3]]
    assert batch.inside("comment").nonzero().tolist() == [[1, 1]]
    assert not batch.inside("roles").any()
    assert collate([first]).n_id.tolist() == [0]
