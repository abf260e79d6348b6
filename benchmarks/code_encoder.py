"""A training step of an encoder of code with the mask of its flow graph, against one without a mask."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from measure import Row, repeated, take_turns
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.localization.code_encoder.code_encoder import CodeEncoder, attention_mask
from gedbd.localization.code_encoder.code_inputs import (
    CodeBatch,
    CodeInput,
    InputLimits,
    InputParts,
    add_code_tokens,
    collate,
    make_input,
)
from gedbd.localization.flow_graph.node_types import EdgeKind, FlowGraph, NodeType, Role

SECTION = "code encoder"
BATCH, NODES, EDGES = 4, 80, 240
LIMITS = InputLimits(comment_tokens=64, code_tokens=263, nodes=NODES)  # inputs of 512 tokens
SIZES = {"4 layers of 256": (4, 256, 4), "12 layers of 768": (12, 768, 12)}
REPEATS = {"4 layers of 256": 9, "12 layers of 768": 2}


def main() -> list[Row]:
    """Measures."""
    return [row for name, (layers, width, heads) in SIZES.items() for row in _measure(name, layers, width, heads)]


def _measure(name: str, layers: int, width: int, heads: int) -> list[Row]:
    """Times a step of an encoder of one size, with and without the mask, and the mask alone."""
    encoder, batch = _encoder_and_batch(layers, width, heads)
    step = partial(_step, encoder, torch.optim.AdamW(encoder.parameters(), lr=1e-5), batch)
    contestants = {
        "masked": lambda: step(lambda: attention_mask(batch)),
        "unmasked": lambda: step(lambda: None),
        "mask": lambda: attention_mask(batch),
    }
    taken = take_turns(contestants, REPEATS[name])
    size = f"{BATCH} inputs of {batch.input_ids.shape[1]} tokens, the mask made in each step"
    return [
        repeated(SECTION, name, taken["masked"], "s a step", ("unmasked", taken["unmasked"]), size),
        repeated(SECTION, f"{name}, mask", 1000 * taken["mask"], "ms", note="part of the step"),
    ]


def _step(
    encoder: CodeEncoder, optimizer: torch.optim.Optimizer, batch: CodeBatch, mask: Callable[[], Tensor | None]
) -> None:
    """One training step; no mask lets every token attend to every other."""
    optimizer.zero_grad()
    hidden = encoder.backbone(input_ids=batch.input_ids, attention_mask=mask()).last_hidden_state
    hidden.square().mean().backward()
    optimizer.step()


def _encoder_and_batch(layers: int, width: int, heads: int) -> tuple[CodeEncoder, CodeBatch]:
    tokenizer = tiny_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    backbone = BertModel(config, add_pooling_layer=False)
    add_code_tokens(tokenizer, backbone)
    rng = np.random.default_rng(0)
    return CodeEncoder(backbone).train(), collate([_generated(tokenizer, rng) for _ in range(BATCH)])


def _generated(tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator) -> CodeInput:
    """An input of the full length: words of one letter, and nodes and edges anywhere."""
    code = "a " * LIMITS.code_tokens
    begins = np.sort(rng.choice(LIMITS.code_tokens, NODES, replace=False)) * 2
    graph = FlowGraph(
        names=("a",) * NODES,
        spans=np.stack([begins, begins + 1], axis=1),
        types=rng.integers(0, len(NodeType), NODES),
        roles=rng.integers(0, len(Role), NODES),
        edges=rng.integers(0, NODES, (2, EDGES)),
        kinds=np.full(EDGES, EdgeKind.DATA),
    )
    return make_input(tokenizer, code, "a " * LIMITS.comment_tokens, graph, LIMITS, InputParts())
