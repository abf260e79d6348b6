"""The tokens that an encoder of code and flow graphs needs beside those of its tokenizer."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.localization.flow_graph.semantic_graph import NodeType, Role

CODE = "[C]"
NODES = "[N]"
TYPES = "[T]"
ROLES = "[R]"
NODE = "[NODE]"
TYPE_TOKENS = tuple(f"[TYPE:{kind.name}]" for kind in NodeType)
ROLE_TOKENS = tuple(f"[ROLE:{role.name}]" for role in Role)
CODE_TOKENS = (CODE, NODES, TYPES, ROLES, NODE, *TYPE_TOKENS, *ROLE_TOKENS)
"""The markers of the blocks, the token of a node, and those of the 55 types and 43 roles."""


def add_code_tokens(tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel, seed: int = 0) -> int:
    """Adds ``CODE_TOKENS`` to a tokenizer as special tokens, and their rows to the embeddings of its encoder.

    A new row is drawn, unit by unit, from the normal distribution with the mean and spread of the rows of the old
    tokens. Tokens that are there already keep their rows.

    Texts are read with ``split_special_tokens``: the ``[N]`` of ``new int[N]`` is code, no marker. The tokenizer
    keeps this setting where it is saved.

    Args:
        tokenizer: Changed in place.
        backbone: Changed in place; a model with a language model's head is allowed, whose outputs grow as well.
        seed: Determines the new rows; other random numbers are left as they are.

    Returns:
        The number of tokens added.
    """
    known = tokenizer.get_vocab()
    missing = [token for token in CODE_TOKENS if token not in known]
    tokenizer.add_tokens(missing, special_tokens=True)
    tokenizer.split_special_tokens = True
    tokenizer.init_kwargs["split_special_tokens"] = True
    if len(tokenizer) > len(_embeddings(backbone)):
        with torch.random.fork_rng(devices=[]):
            backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    _draw_rows(_embeddings(backbone), token_numbers(tokenizer, missing), len(known), seed)
    return len(missing)


def token_numbers(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> list[int]:
    """The numbers of some tokens.

    Raises:
        ValueError: If the tokenizer does not have them all.
    """
    numbers: Any = tokenizer.convert_tokens_to_ids(list(tokens))
    if None in numbers or tokenizer.unk_token_id in numbers:
        raise ValueError("the tokenizer lacks tokens of code and flow graphs: call add_code_tokens before make_input")
    return list(numbers)


def _embeddings(backbone: PreTrainedModel) -> torch.Tensor:
    weight = backbone.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    return weight


def _draw_rows(weight: torch.Tensor, rows: list[int], num_old: int, seed: int) -> None:
    """Draws embedding rows from the distribution of the first ``num_old`` rows."""
    with torch.no_grad():
        old = weight[:num_old].float().cpu()
        noise = torch.randn(len(rows), old.shape[1], generator=torch.Generator().manual_seed(seed))
        drawn = old.mean(0) + old.std(0) * noise
        weight[rows] = drawn.to(weight)
