"""The attention mask against a double loop over its formula, and what encoders make of it."""

import numpy as np
import pytest
import torch

from gedbd.localization.code_encoder.code_encoder import CodeEncoder, attention_mask
from gedbd.localization.code_encoder.code_inputs import (
    CodeBatch,
    CodeEdges,
    InputLimits,
    InputParts,
    add_code_tokens,
    collate,
    make_input,
)
from gedbd.localization.flow_graph.node_types import FlowGraph

CODES = ("int f(int a) { if (a > 0) return a; }", "void g() { }", "x = y[N] + f(z, y);")
COMMENTS = ("the int", "", "a b c d e f")
PARTS = (InputParts(), InputParts(types=False), InputParts(nodes=False, types=False, roles=False))


def random_graph(code: str, rng: np.random.Generator) -> FlowGraph:
    """Up to seven nodes anywhere in a text with edges between any of them, themselves included."""
    number = int(rng.integers(0, 8))
    begins = np.sort(rng.integers(0, len(code) - 1, number))
    spans = np.stack([begins, np.minimum(begins + rng.integers(1, 6, number), len(code))], axis=1)
    types = rng.integers(0, 55, number)
    roles = np.where(types < 20, rng.integers(0, 43, number), -1)
    edges = np.argwhere(rng.random((number, number)) < 0.3).T
    kinds = rng.integers(0, 3, edges.shape[1])
    return FlowGraph(("",) * number, spans, types, roles, edges, kinds)


def random_batch(tokenizer, parts: InputParts, seed: int) -> CodeBatch:
    rng = np.random.default_rng(seed)
    limits = InputLimits(4, 14, 5)
    methods = zip(CODES, COMMENTS, strict=True)
    return collate(
        [make_input(tokenizer, code, text, random_graph(code, rng), limits, parts) for code, text in methods]
    )


def by_formula(batch: CodeBatch, tokenizer) -> list[list[list[bool]]]:
    """The mask, cell by cell."""
    joined = {tuple(edge) for kind in batch.edges for edge in kind.T.tolist()}
    joined |= {(row, node, token) for row, token, node in batch.edges.code_node.T.tolist()}
    masks = []
    for row, ids in enumerate(batch.input_ids.tolist()):
        words = tokenizer.convert_ids_to_tokens(ids)
        separator = words.index("[SEP]")
        length = int(batch.lengths[row])
        masks.append([[i == j for j in range(len(ids))] for i in range(len(ids))])
        for i in range(length):
            for j in range(length):
                in_text = 0 < i < separator and 0 < j < separator
                masks[-1][i][j] |= words[i] in ("[CLS]", "[SEP]") or in_text or (row, i, j) in joined
    return masks


@pytest.mark.parametrize("parts", PARTS)
def test_it_equals_the_formula(tokenizer, parts) -> None:
    for seed in range(2):
        batch = random_batch(tokenizer, parts, seed)
        mask = attention_mask(batch)
        assert mask.shape == (3, 1, batch.input_ids.shape[1], batch.input_ids.shape[1])
        assert mask.dtype == torch.bool
        assert mask[:, 0].tolist() == by_formula(batch, tokenizer)


def test_hidden_edges_are_hidden_and_the_others_stay(tokenizer) -> None:
    batch = random_batch(tokenizer, InputParts(), 0)
    hidden = CodeEdges(*(kind[:, ::2] for kind in batch.edges))
    kept = batch._replace(edges=CodeEdges(*(kind[:, 1::2] for kind in batch.edges)))
    assert sum(kind.shape[1] for kind in hidden) > 10
    assert torch.equal(attention_mask(batch, hidden), attention_mask(kept))
    assert torch.equal(attention_mask(batch, batch.edges)[0, 0].diagonal(), torch.ones(batch.input_ids.shape[1]).bool())


@torch.no_grad()
def test_a_token_that_may_not_be_attended_to_changes_nothing(model, code, graph) -> None:
    backbone, tokenizer = model
    add_code_tokens(tokenizer, backbone)
    encoder = CodeEncoder(backbone).eval()
    batch = collate([make_input(tokenizer, code, "int", graph, InputLimits(), InputParts())])
    mask = attention_mask(batch)
    before = encoder(batch, mask)
    for place in (0, 1, 5, int(batch.blocks[0, 2, 0]), int(batch.blocks[0, 3, 0]), batch.input_ids.shape[1] - 1):
        ids = batch.input_ids.clone()
        ids[0, place] = tokenizer.convert_tokens_to_ids("[NODE]" if place < 20 else "[C]")
        changed = (encoder(batch._replace(input_ids=ids), mask) - before).abs().amax(2)[0] > 1e-6
        assert torch.equal(changed, mask[0, 0, :, place])


@torch.no_grad()
def test_padding_changes_no_vector(model, code, graph) -> None:
    backbone, tokenizer = model
    add_code_tokens(tokenizer, backbone)
    encoder = CodeEncoder(backbone).eval()
    longer = make_input(tokenizer, code, "int", graph, InputLimits(), InputParts())
    shorter = make_input(tokenizer, "int f", "", None, InputLimits(), InputParts(types=False, roles=False))
    together = collate([longer, shorter])
    alone = collate([shorter])
    expected = encoder(alone, attention_mask(alone))[0]
    found = encoder(together, attention_mask(together))[1]
    assert torch.isfinite(found).all()
    assert torch.allclose(found[: len(shorter)], expected, atol=1e-5)
