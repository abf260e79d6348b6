"""The methods of a corpus as inputs of an encoder."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.corpus import Corpus
from gedbd.io.console import track
from gedbd.localization.code_encoder.code_inputs import CodeInput, InputLimits, InputParts, make_input
from gedbd.localization.code_encoder.code_tokens import CODE_TOKENS
from gedbd.localization.flow_graph.parse import find_method_graph
from gedbd.localization.pretraining.masking import TokenVocabulary

MIN_PROGRESS_METHODS = 200


class MethodInputs(NamedTuple):
    """The inputs of N methods, and what was found, in sentences for the user."""

    inputs: list[CodeInput]
    warnings: tuple[str, ...]


def check_methods(corpus: Corpus) -> None:
    """Raises ValueError if a corpus holds no methods with comments."""
    if "comment" not in corpus.reports or "path" not in corpus.reports:
        raise ValueError(
            f"{corpus.name} holds no methods: choose dataset=java_sources dataset.path=<folder of sources>"
        )


def texts_of(table: pd.DataFrame) -> list[str]:
    """Comments and code of methods, for a tokenizer."""
    return [*table["comment"], *table["description"]]


def read_inputs(
    table: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, limits: InputLimits, parts: InputParts
) -> MethodInputs:
    """Parses and tokenizes methods.

    Args:
        table: N methods with ``description``, their code, and ``comment``.
        tokenizer: It has the tokens of code.
        limits: The largest size of each block.
        parts: Which blocks there are.
    """
    inputs = []
    num_without_graph = 0
    num_approximate = 0
    pairs = zip(table["description"], table["comment"], strict=True)
    quiet = len(table) < MIN_PROGRESS_METHODS
    for code, comment in track(pairs, "parse methods", total=len(table), transient=True, disable=quiet):
        graph = find_method_graph(code, parts.rules) if parts.nodes else None
        num_without_graph += parts.nodes and graph is None
        num_approximate += graph is not None and graph.is_approximate
        inputs.append(make_input(tokenizer, code, comment, graph, limits, parts))
    warnings = _warnings(inputs, num_without_graph, limits)
    if num_approximate:
        warnings += (f"{num_approximate:,} of {len(inputs):,} methods are so large that edges are left out",)
    return MethodInputs(inputs, warnings)


def find_vocabulary(tokenizer: PreTrainedTokenizerBase) -> TokenVocabulary:
    """Token numbers for sampling.

    Raises:
        ValueError: If the tokenizer has no [MASK].
    """
    if tokenizer.mask_token_id is None:
        raise ValueError("the encoder's tokenizer has no mask token, which a masked language model needs")
    numbers = tokenizer.get_vocab()
    special = {*tokenizer.all_special_ids, *(numbers[token] for token in CODE_TOKENS)}
    ordinary = [number for number in range(len(tokenizer)) if number not in special]
    return TokenVocabulary(int(tokenizer.mask_token_id), np.array(ordinary))


def _warnings(inputs: list[CodeInput], num_without_graph: int, limits: InputLimits) -> tuple[str, ...]:
    found = []
    if num_without_graph:
        found.append(f"{num_without_graph:,} of {len(inputs):,} texts hold no method, so that they have no flow graph")
    cut = np.array([one.num_cut for one in inputs]).reshape(-1, 3)
    names = ("comment_tokens", "code_tokens", "nodes")
    for name, numbers in zip(names, cut.T, strict=True):
        if numbers.any():
            share = np.mean(numbers > 0)
            limit = f"task.limits.{name}={getattr(limits, name)}"
            found.append(f"{share:.1%} of the methods are longer than {limit}: {numbers.sum():,} are cut off")
    return tuple(found)
