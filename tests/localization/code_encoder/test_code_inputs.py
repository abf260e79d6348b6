"""The tokens, blocks and edges of an input against hand-made ones, and the tokens of code in encoders."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from gedbd.encoders.pretrained import tiny_backbone, tiny_tokenizer
from gedbd.localization.code_encoder.code_inputs import (
    BLOCKS,
    CodeEdges,
    CodeInput,
    InputLimits,
    InputParts,
    add_code_tokens,
    check_length,
    collate,
    make_input,
    max_length,
)

LIMITS = InputLimits()
ALL = InputParts()
NODES_ALONE = InputParts(types=False, roles=False)
EMPTY = np.zeros((2, 0), dtype=np.int32)
COMMENT = "a"  # one token, so that the code begins at position 3


def edges_of(one) -> list[list[list[int]]]:
    return [pair.T.tolist() for pair in one.edges]


def tokens_of(one, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return tokenizer.convert_ids_to_tokens(one.input_ids.tolist())


def test_the_tokens_are_in_the_order_of_the_formula(tokenizer, code, graph) -> None:
    one = make_input(tokenizer, code, COMMENT, graph, LIMITS, ALL)
    words = tokens_of(one, tokenizer)
    inside = tokenizer.tokenize(code)
    start = 3 + len(inside)
    assert words[:3] == ["[CLS]", "a", "[C]"]
    assert words[3:start] == inside
    assert words[start : start + 7] == ["[SEP]", "[N]", *["[NODE]"] * 4, "[T]"]
    assert words[start + 7] == "[TYPE:INTEGER]"
    assert words[start + 61 : start + 64] == ["[TYPE:EXCEPTION_THROW]", "[R]", "[ROLE:BLOCK_DEFAULT]"]
    assert words[-2:] == ["[ROLE:UNKNOWN]", "[SEP]"]
    places = dict(zip(BLOCKS, one.blocks.tolist(), strict=True))
    assert places == {
        "comment": [1, 1],
        "code": [3, len(inside)],
        "nodes": [start + 2, 4],
        "types": [start + 7, 55],
        "roles": [start + 63, 43],
    }
    assert len(one) == start + 107


def test_edges_join_tokens_nodes_types_and_roles(tokenizer, code, graph) -> None:
    one = make_input(tokenizer, code, COMMENT, graph, LIMITS, ALL)
    words = tokens_of(one, tokenizer)
    node, type_, role = one.blocks[2:, 0].tolist()
    code_node = [(words[token], place - node) for token, place in edges_of(one)[0]]
    assert code_node == [("a", 0), ("if", 1), ("a", 2), ("a", 3)]
    assert len({token for token, _ in edges_of(one)[0]}) == 4
    assert edges_of(one)[1] == [[node, node + 2], [node, node + 3], [node + 1, node + 3], [node + 2, node + 1]]
    assert edges_of(one)[2] == [[node, type_], [node + 1, type_ + 44], [node + 2, type_], [node + 3, type_]]
    assert edges_of(one)[3] == [[node, role + 2], [node + 2, role + 18], [node + 3, role + 32]]


def test_a_node_of_several_tokens_is_joined_to_each_of_them(make_model, graph) -> None:
    backbone, tokenizer = make_model("roberta")
    add_code_tokens(tokenizer, backbone)
    graph.spans[:2] = [[4, 11], [11, 13]]
    code = "int éxqz_w = éxqz;"
    offsets = tokenizer(code, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    one = make_input(tokenizer, code, "", graph, LIMITS, NODES_ALONE)
    start, node = one.blocks[1, 0], one.blocks[2, 0]
    expected = [
        [start + token, node + number]
        for number, (first, last) in enumerate(graph.spans.tolist())
        for token, (begin, end) in enumerate(offsets)
        if begin < last and first < end
    ]
    assert sum(place == node for _, place in expected) > 3
    assert edges_of(one)[0] == expected


@pytest.mark.parametrize(
    ("parts", "markers"),
    [
        (ALL, ["[C]", "[N]", "[T]", "[R]"]),
        (InputParts(types=False), ["[C]", "[N]", "[R]"]),
        (InputParts(roles=False), ["[C]", "[N]", "[T]"]),
        (NODES_ALONE, ["[C]", "[N]"]),
        (InputParts(nodes=False, types=False, roles=False), ["[C]"]),
    ],
)
def test_parts_that_are_off_leave_no_block_marker_or_edge(tokenizer, code, graph, parts, markers) -> None:
    one = make_input(tokenizer, code, "", graph, LIMITS, parts)
    words = tokens_of(one, tokenizer)
    assert [word for word in words if word in ("[C]", "[N]", "[T]", "[R]")] == markers
    assert words.count("[SEP]") == (2 if parts.nodes else 1)
    assert words[:2] == ["[CLS]", "[C]"]
    assert one.blocks[0].tolist() == [1, 0]
    counts = [4 * parts.nodes, 4 * parts.nodes, 4 * parts.types, 3 * parts.roles]
    assert [pair.shape[1] for pair in one.edges] == counts
    assert len(one) <= max_length(LIMITS, parts)


def test_data_edges_keep_variables_alone(tokenizer, code, graph) -> None:
    one = make_input(tokenizer, code, "", graph, LIMITS, InputParts(edges="data"))
    node = one.blocks[2, 0]
    assert one.blocks[2, 1] == 3
    assert edges_of(one)[1] == [[node, node + 1], [node, node + 2]]
    assert one.num_cut == (0, 0, 0)


def test_nodes_behind_the_last_token_are_cut_with_their_edges(tokenizer, code, graph) -> None:
    # int f ( int a ) { if ( a: the tenth token is the second a, so that only the last node begins later.
    one = make_input(tokenizer, code, "to a f", graph, InputLimits(2, 10, 80), ALL)
    node = one.blocks[2, 0]
    assert tokens_of(one, tokenizer)[13] == "a"
    assert one.blocks[2, 1] == 3
    assert edges_of(one)[1] == [[node, node + 2], [node + 2, node + 1]]
    assert one.num_cut == (1, len(tokenizer.tokenize(code)) - 10, 1)


def test_the_first_nodes_are_kept(tokenizer, code, graph) -> None:
    one = make_input(tokenizer, code, "", graph, InputLimits(nodes=2), ALL)
    assert one.blocks[2, 1] == 2
    assert one.edges.node_node.shape == (2, 0)
    assert one.edges.node_role.shape == (2, 1)
    assert one.num_cut == (0, 0, 2)


def test_the_longest_input_has_the_length_that_is_checked(tokenizer, code, graph) -> None:
    limits = InputLimits(2, 5, 1)
    for parts in (ALL, NODES_ALONE, InputParts(nodes=False, types=False, roles=False)):
        assert len(make_input(tokenizer, code, "to a f", graph, limits, parts)) == max_length(limits, parts)
    assert max_length(LIMITS, ALL) == 505
    check_length(LIMITS, ALL, 505)
    check_length(LIMITS, ALL, None)
    with pytest.raises(ValueError, match=r"code_tokens=256 .* up to 505 tokens, but the encoder has 504 positions"):
        check_length(LIMITS, ALL, 504)


def test_code_without_a_graph_or_without_text_is_an_input(tokenizer) -> None:
    one = make_input(tokenizer, "", "", None, LIMITS, ALL)
    assert tokens_of(one, tokenizer)[:5] == ["[CLS]", "[C]", "[SEP]", "[N]", "[T]"]
    assert all(pair.shape == (2, 0) for pair in one.edges)


def small_input(length: int, blocks: list[list[int]], node_node: list[list[int]]) -> CodeInput:
    edges = CodeEdges(EMPTY, np.array(node_node, dtype=np.int32).reshape(2, -1), EMPTY, EMPTY)
    return CodeInput(np.arange(10, 10 + length, dtype=np.int32), np.array(blocks, dtype=np.int32), edges, pad_id=1)


def test_inputs_are_padded_and_edges_get_the_row_of_their_input() -> None:
    first = small_input(4, [[1, 0], [2, 1], [0, 0], [0, 0], [0, 0]], [])
    second = small_input(6, [[1, 1], [3, 1], [0, 0], [0, 0], [0, 0]], [[4, 5], [5, 5]])
    batch = collate([first, second])
    assert batch.input_ids.tolist() == [[10, 11, 12, 13, 1, 1], [10, 11, 12, 13, 14, 15]]
    assert batch.lengths.tolist() == [4, 6]
    assert batch.is_token.sum(1).tolist() == [4, 6]
    assert batch.edges.node_node.tolist() == [[1, 1], [4, 5], [5, 5]]
    assert batch.edges.code_node.shape == (3, 0)
    assert batch.inside("code").nonzero().tolist() == [[0, 2], [1, 3]]
    assert batch.inside("comment").nonzero().tolist() == [[1, 1]]
    assert not batch.inside("roles").any()


def test_what_is_wrong_is_said_in_one_line(code, graph) -> None:
    with pytest.raises(ValueError, match="call add_code_tokens"):
        make_input(tiny_tokenizer(), code, "", graph, LIMITS, ALL)
    with pytest.raises(ValueError, match="edges=all is unknown: choose flow or data"):
        InputParts(edges="all")
    with pytest.raises(ValueError, match="types=false and roles=false"):
        InputParts(nodes=False)
    with pytest.raises(ValueError, match="code_tokens=0 must be 1 or more"):
        InputLimits(code_tokens=0)


def test_each_architecture_gets_the_tokens_and_rows_once(model) -> None:
    backbone, tokenizer = model
    old = len(tokenizer)
    before = backbone.get_input_embeddings().weight.detach().clone()
    assert add_code_tokens(tokenizer, backbone, seed=3) == 103
    weight = backbone.get_input_embeddings().weight.detach().clone()
    assert len(tokenizer) == len(weight) == backbone.config.vocab_size == old + 103
    assert torch.equal(weight[:old], before)
    assert add_code_tokens(tokenizer, backbone, seed=4) == 0
    assert torch.equal(backbone.get_input_embeddings().weight, weight)


def test_new_rows_have_the_mean_and_spread_of_the_old_ones() -> None:
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(32, 1, 0.1, 0, len(tokenizer))
    with torch.no_grad():
        backbone.get_input_embeddings().weight.mul_(torch.linspace(0.1, 30, 32)).add_(7)
    add_code_tokens(tokenizer, backbone)
    old, new = backbone.get_input_embeddings().weight.detach().tensor_split([len(tokenizer) - 103])
    assert torch.allclose(new.mean(0), old.mean(0), atol=0.3)
    assert torch.allclose(new.std(0) / old.std(0), torch.ones(32), atol=0.3)


def test_brackets_of_code_are_no_markers_in_a_saved_tokenizer_either(tmp_path, tokenizer) -> None:
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert one("x[N][CLS]").tokens()[:5] == ["[CLS]", "x", "[", "n", "]"]
        assert one.convert_tokens_to_ids("[N]") == len(tokenizer) - 102
