"""The projections of frozen vectors: the published one with a sigmoid, and one that starts as the frozen encoder."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.corpora.fields import tags_of
from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.retrieval.scorers.table_vectors import FittedTableVectors, TableVectors, TagVectors

HEADS = ("sigmoid", "residual")


class SigmoidHead(nn.Module):
    """``sigmoid(W E + b)``, as published: Hazra et al., 2023 (arXiv 2309.05035).

    Args:
        num_inputs: Size of the frozen vectors.
        dim: Size of the projected ones.
    """

    def __init__(self, num_inputs: int, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_inputs, dim)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, dim)``, between 0 and 1."""
        return torch.sigmoid(self.linear(features))


class ResidualHead(nn.Module):
    """``t + W E`` of length 1, t the text part of E. W starts at 0: before training, the vectors are the frozen ones.

    Args:
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part, which comes first.
    """

    def __init__(self, num_inputs: int, num_text: int) -> None:
        super().__init__()
        self.num_text = num_text
        self.linear = nn.Linear(num_inputs, num_text, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, num_text)`` unit rows."""
        return normalize(features[:, : self.num_text] + self.linear(features), dim=1)


def check_head(name: str) -> None:
    """Raises ValueError if a projection is unknown."""
    if name not in HEADS:
        raise ValueError(f"task.head={name} is unknown: choose {', '.join(HEADS)}")


def make_head(name: str, num_inputs: int, num_text: int, dim: int) -> nn.Module:
    """The projection of a name.

    Args:
        name: One of ``HEADS``.
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part.
        dim: Size of the projected vectors of ``sigmoid``; those of ``residual`` are as large as the text part.

    Raises:
        ValueError: If the name is unknown or the size not above 0.
    """
    check_head(name)
    return SigmoidHead(num_inputs, dim) if name == "sigmoid" else ResidualHead(num_inputs, num_text)


def method_id(head: str, network: bool) -> str:
    """The id of a model in results: ``te``, ``te_network``, ``te_modern``, ``te_network_modern``."""
    return "te" + ("_network" if network else "") + ("_modern" if head == "residual" else "")


class Questions(NamedTuple):
    """What training and evaluation read of N questions.

    Attributes:
        features: ``(N, D)`` float32: the vectors of title and body, then that of the tag, if it is read;
            each has length 1, or is zero where there is nothing to encode.
        num_text: Size of the text vectors, which come first.
        tags: The tags of each question.
        answered: ``(N,)`` bool; all of them where the corpus does not tell.
        warnings: What was found, in sentences for the user.
    """

    features: np.ndarray
    num_text: int
    tags: list[tuple[str, ...]]
    answered: np.ndarray
    warnings: tuple[str, ...]

    @property
    def frozen(self) -> np.ndarray:
        """``(N, num_text)`` text vectors of length 1: their cosines are the mean of those of title and of body."""
        return unit_rows(self.features[:, : self.num_text])


def read_questions(
    table: pd.DataFrame, vectors: TableVectors, tag_vectors: TagVectors | None, fitted: np.ndarray, name: str
) -> Questions:
    """Encodes questions.

    Args:
        table: N documents; the column ``answered`` may be absent.
        vectors: Of title and body.
        tag_vectors: Of tags, fitted here; None to read the text alone.
        fitted: ``(N,)`` bool, the questions whose tags the tag vectors may see: those of the training part.
        name: What messages call the corpus.

    Raises:
        ValueError: If tag vectors are wanted and no training question has a tag.
    """
    tags = tags_of(table)
    tags_seen = [own for own, is_fitted in zip(tags, fitted, strict=True) if is_fitted]
    if tag_vectors is not None and not any(tags_seen):
        raise ValueError(
            f"the tag network needs tags, and no training document of {name} has a label or component:"
            " choose a method without it (task.network=false, name=te), or name their column (dataset.columns.labels=)"
        )
    if tag_vectors is not None:  # before the texts, which take long
        tag_vectors.fit(tags_seen)
    if isinstance(vectors, FittedTableVectors):
        vectors.fit(table)  # contents of all documents, no labels
    text = vectors.encode(table)
    warnings = vectors.warnings_ if isinstance(vectors, FittedTableVectors) else ()
    answered = table["answered"].to_numpy(dtype=bool) if "answered" in table else np.ones(len(table), dtype=bool)
    if tag_vectors is None:
        return Questions(text, text.shape[1], tags, answered, warnings)
    # As long as the vector of a title: node2vec's vectors are several times as long, and would outweigh the text.
    features = np.hstack([text, unit_rows(tag_vectors.encode(tags))])
    return Questions(features, text.shape[1], tags, answered, (*warnings, *tag_vectors.warnings_))
