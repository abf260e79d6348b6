"""Frozen vectors of questions: title and body, separate or as one text, and tags."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from gedbd.corpora.fields import tags_of
from gedbd.corpora.templates import join_texts
from gedbd.encoders.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.encoders.node2vec import TagEncoder
from gedbd.retrieval.scorers.dense_scorer import TableVectors
from gedbd.text.words import without_stop_words

Form = Literal["separate", "joined"]


@dataclass(eq=False)
class TitleBody:
    """Encodes the title and the body of a document separately, so that a long body does not outweigh the title.

    Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities", 2023: the
    frozen vectors of the method TE.

    Raises:
        ValueError: If the form is unknown.
    """

    encoder: LoadedEncoder  # the frozen encoder; its cache keeps the vectors
    clean: bool = True  # remove URLs and stop words
    cache_dir: str | None = None  # folder of cached vectors; None for the encoder's own
    backend: Backend | None = None  # what runs the encoder; None for its own
    # ``separate``, or ``joined`` to encode title and body as one text, as a frozen encoder alone reads them
    form: Form = "separate"

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"form={self.form} of title and body is unknown: choose {' or '.join(get_args(Form))}")
        self.warnings_: tuple[str, ...] = ()
        self.encoder.cache_dir = self.cache_dir or self.encoder.cache_dir
        self.encoder.backend = self.backend or self.encoder.backend

    @property
    def dim(self) -> int:
        """Size of a document's vector: 2H, or H if title and body are joined."""
        return self.encoder.model.features * (1 if self.form == "joined" else 2)

    def fit(self, documents: pd.DataFrame) -> None:
        """Does nothing, as the encoder is not trained."""

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Unit vectors of titles beside those of bodies, or of the joined texts.

        Returns:
            ``(N, 2H)`` float32: the first H columns of the title, the others of the body; zeros for an empty text.
            ``(N, H)`` for joined texts.
        """
        if self.form == "joined":
            joined = join_texts(table["title"].tolist(), table["description"].tolist())
            return self._encode_texts([self._prepare(text) for text in joined])
        # One call for both: a calibrated backend is fitted once, and there is one progress bar.
        vectors = self._encode_texts(
            [self._prepare(text) for field in ("title", "description") for text in table[field]]
        )
        # Of 3 documents: rows 0, 1, 2 are titles and 3, 4, 5 bodies.
        return np.hstack([vectors[: len(table)], vectors[len(table) :]])

    def _encode_texts(self, texts: list[str]) -> np.ndarray:
        """``(N, H)`` unit rows; zeros for an empty text."""
        present = [position for position, text in enumerate(texts) if text]
        vectors = np.zeros((len(texts), self.encoder.model.features), dtype=np.float32)
        if present:
            vectors[present] = unit_rows(
                self.encoder.pool([texts[position] for position in present], "encode title and body")
            )
        return vectors

    def _prepare(self, text: str) -> str:
        return without_stop_words(text) if self.clean else text.strip()


class Questions(NamedTuple):
    """Features of N questions for training and evaluation."""

    # ``(N, D)`` float32: the vectors of title and body, then that of the tag, if it is read; each has length 1, or is
    # zero where there is nothing to encode
    features: np.ndarray
    num_text: int  # size of the text vectors, which come first
    tags: list[tuple[str, ...]]  # the tags of each question
    answered: np.ndarray  # ``(N,)`` bool; all True if the corpus does not say which are answered
    warnings: tuple[str, ...]  # warnings for the user

    @property
    def frozen(self) -> np.ndarray:
        """``(N, num_text)`` text vectors of length 1: their cosines are the mean of those of title and of body."""
        return unit_rows(self.features[:, : self.num_text])


def read_questions(
    table: pd.DataFrame, vectors: TableVectors, tag_vectors: TagEncoder | None, fitted: np.ndarray, name: str
) -> Questions:
    """Encodes questions.

    Args:
        table: N documents; the column ``answered`` may be absent.
        vectors: Encoder of title and body.
        tag_vectors: Encoder of tags, fitted here; None to use the text alone.
        fitted: ``(N,)`` bool, the training questions, whose tags the encoder of tags learns from.
        name: Name of the corpus in messages.

    Raises:
        ValueError: If tag vectors are wanted and no training question has a tag.
    """
    tags = tags_of(table)
    tags_seen = [question_tags for question_tags, is_fitted in zip(tags, fitted, strict=True) if is_fitted]
    if tag_vectors is not None and not any(tags_seen):
        raise ValueError(
            f"the tag network needs tags, and no training document of {name} has a label or component:"
            " choose a method without it (task.network=false, name=te), or name their column (dataset.columns.labels=)"
        )
    if tag_vectors is not None:  # before the texts, which take long
        tag_vectors.fit(tags_seen)
    vectors.fit(table)  # the texts of all documents, no labels
    text = vectors.encode(table)
    warnings = vectors.warnings_
    answered = table["answered"].to_numpy(dtype=bool) if "answered" in table else np.ones(len(table), dtype=bool)
    if tag_vectors is None:
        return Questions(text, text.shape[1], tags, answered, warnings)
    # As long as the vector of a title: node2vec's vectors are several times as long, and would outweigh the text.
    features = np.hstack([text, unit_rows(tag_vectors.encode(tags))])
    return Questions(features, text.shape[1], tags, answered, (*warnings, *tag_vectors.warnings_))
