"""A method with a hand-made graph, tiny random encoders of three architectures, and their tokenizers."""

from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from gedbd.code.semantic_graph import NO_ROLE, EdgeKind, FlowGraph, NodeType, Role
from gedbd.encoders.code.code_tokens import add_code_tokens
from gedbd.encoders.tiny_bert import tiny_tokenizer

CODE = "int f(int a) { if (a > 0) return a; }"
ARCHITECTURES = ("bert", "roberta", "distilbert")


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


def byte_tokenizer() -> PreTrainedTokenizerBase:
    """A byte-level tokenizer with the special tokens of RoBERTa."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([CODE, "return the int"], trainer)
    names = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    )


def tiny_encoder(architecture: str, rows: int, layers: int = 1) -> PreTrainedModel:
    """A random encoder without dropout."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {"hidden_size": 16, "num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": 16}
    if architecture == "bert":
        return BertModel(BertConfig(vocab_size=rows, max_position_embeddings=512, **sizes, **still))
    if architecture == "roberta":
        return RobertaModel(
            RobertaConfig(vocab_size=rows, pad_token_id=1, max_position_embeddings=514, **sizes, **still)
        )
    plain = {"dim": 16, "n_layers": layers, "n_heads": 2, "hidden_dim": 16, "dropout": 0.0, "attention_dropout": 0.0}
    return DistilBertModel(DistilBertConfig(vocab_size=rows, max_position_embeddings=512, **plain))


@pytest.fixture
def make_model() -> Callable[..., tuple[PreTrainedModel, PreTrainedTokenizerBase]]:
    """Builds a random encoder and a tokenizer for it, without the tokens of code."""

    def make(architecture: str, layers: int = 1) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        tokenizer = byte_tokenizer() if architecture == "roberta" else tiny_tokenizer()
        return tiny_encoder(architecture, len(tokenizer), layers), tokenizer

    return make


@pytest.fixture(params=ARCHITECTURES)
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
def tokenizer() -> PreTrainedTokenizerBase:
    """A word-piece tokenizer with the tokens of code."""
    made = tiny_tokenizer()
    add_code_tokens(made, tiny_encoder("bert", len(made)))
    return made
