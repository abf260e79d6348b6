"""Vectors of title and body, apart or as one text, from an encoder that is not trained."""

from typing import Literal, get_args

import numpy as np
import pandas as pd

from gedbd.corpora.templates import join_texts
from gedbd.encoders.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.text.words import without_stop_words

Form = Literal["separate", "joined"]


class TitleBody:
    """Encodes the title and the body of a document apart, so that a long body does not outweigh the title.

    Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities", 2023: the
    frozen vectors of the method TE.

    Args:
        encoder: The encoder, used as it stands; its cache keeps the vectors.
        clean: Remove URLs and stop words.
        form: ``separate``, or ``joined`` to encode title and body as one text, as a frozen encoder alone reads them.
        cache_dir: Folder in which vectors are kept; None for that of the encoder.
        backend: What runs the encoder; None for its own.

    Raises:
        ValueError: If the form is unknown.
    """

    def __init__(
        self,
        encoder: LoadedEncoder,
        clean: bool = True,
        cache_dir: str | None = None,
        backend: Backend | None = None,
        form: Form = "separate",
    ) -> None:
        if form not in get_args(Form):
            raise ValueError(f"form={form} of title and body is unknown: choose {' or '.join(get_args(Form))}")
        self.encoder = encoder
        self.encoder.cache_dir = cache_dir or encoder.cache_dir
        self.encoder.backend = backend or encoder.backend
        self.clean = clean
        self.form = form

    @property
    def dim(self) -> int:
        """Size of a document's vector: 2H, or H if title and body are joined."""
        return self.encoder.model.features * (1 if self.form == "joined" else 2)

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Unit vectors of titles beside those of bodies, or of the joined texts.

        Args:
            table: N documents with ``title`` and ``description``.

        Returns:
            ``(N, 2H)`` float32: the first H columns of the title, the others of the body; zeros for an empty one. Or
            ``(N, H)``.
        """
        if self.form == "joined":
            joined = join_texts(table["title"].tolist(), table["description"].tolist())
            return self._encoded([self._prepare(text) for text in joined])
        # One call for both: a calibrated backend is fitted once, and there is one progress bar.
        vectors = self._encoded([self._prepare(text) for field in ("title", "description") for text in table[field]])
        # Of 3 documents: rows 0, 1, 2 are titles and 3, 4, 5 bodies.
        return np.hstack([vectors[: len(table)], vectors[len(table) :]])

    def _encoded(self, texts: list[str]) -> np.ndarray:
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
