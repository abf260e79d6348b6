"""A method with a hand-made graph, tiny random encoders of three architectures, and their tokenizers."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from small_models import small_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.localization.code_encoder.code_inputs import add_code_tokens
from gedbd.localization.flow_graph.node_types import NO_ROLE, EdgeKind, FlowGraph, NodeType, Role

CODE = "int f(int a) { if (a > 0) return a; }"


def graph_of_code() -> FlowGraph:
    """The nodes of ``CODE``: its parameter, ``if``, the ``a`` of the condition, and the ``a`` that is returned."""
    begins = [10, 15, 19, 33]
    ends = [11, 17, 20, 34]
    return FlowGraph(
        names=("a", "", "a", "a"),
        spans=np.array([begins, ends], dtype=np.int32).T,
        types=np.array([NodeType.INTEGER, NodeType.IF_CONDITION, NodeType.INTEGER, NodeType.INTEGER], dtype=np.int8),
        roles=np.array([Role.PARAMETER, NO_ROLE, Role.COMPARE_OPERATOR_LEFT, Role.RETURN], dtype=np.int8),
        edges=np.array([[0, 0, 1, 2], [2, 3, 3, 1]], dtype=np.int32),
        kinds=np.array([EdgeKind.DATA, EdgeKind.DATA, EdgeKind.SEQUENTIAL, EdgeKind.SEQUENTIAL], dtype=np.int8),
    )


@pytest.fixture
def make_model() -> Callable[..., tuple[PreTrainedModel, PreTrainedTokenizerBase]]:
    """Builds a random encoder without dropout and a tokenizer for it, without the tokens of code."""
    return partial(small_model, positions=512, dropout=0.0, layers=1)


@pytest.fixture(params=["bert", "roberta", "distilbert"])
def model(request: pytest.FixtureRequest, make_model: Callable) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A random encoder of one layer and its tokenizer, for each architecture."""
    pair: tuple[PreTrainedModel, PreTrainedTokenizerBase] = make_model(request.param)
    return pair


@pytest.fixture
def graph() -> FlowGraph:
    """The graph of ``code``."""
    return graph_of_code()


@pytest.fixture
def code() -> str:
    """A method."""
    return CODE


@pytest.fixture
def tokenizer(make_model: Callable) -> PreTrainedTokenizerBase:
    """A word-piece tokenizer with the tokens of code."""
    backbone, made = make_model("bert")
    add_code_tokens(made, backbone)
    return made
