"""Vectors of title and body apart, from an encoder that is not trained."""

import numpy as np
import pandas as pd

from gedbd.encoders.backends.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.text.code_words import without_stop_words


class TitleBody:
    """Encodes the title and the body of a document apart, so that a long body does not outweigh the title.

    Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities", 2023: the
    frozen vectors of the method TE.

    Args:
        encoder: The encoder, used as it stands; its cache keeps the vectors.
        clean: Remove URLs and stop words.
        cache_dir: Folder in which vectors are kept; None for that of the encoder.
        backend: What runs the encoder; None for its own.
    """

    def __init__(
        self,
        encoder: LoadedEncoder,
        clean: bool = True,
        cache_dir: str | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder = encoder
        self.encoder.cache_dir = cache_dir or encoder.cache_dir
        self.encoder.backend = backend or encoder.backend
        self.clean = clean

    @property
    def dim(self) -> int:
        """Size 2H of a document's vector."""
        return 2 * self.encoder.model.features

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Unit vectors of titles beside those of bodies.

        Args:
            table: N documents with ``title`` and ``description``.

        Returns:
            ``(N, 2H)`` float32: the first H columns of the title, the others of the body; zeros for an empty one.
        """
        texts = [self._prepare(text) for field in ("title", "description") for text in table[field]]
        present = [place for place, text in enumerate(texts) if text]
        vectors = np.zeros((len(texts), self.dim // 2), dtype=np.float32)
        if present:
            # One call for both: a calibrated backend is fitted once, and there is one progress bar.
            vectors[present] = unit_rows(
                self.encoder.pool([texts[place] for place in present], "encode title and body")
            )
        # Of 3 documents: rows 0, 1, 2 are titles and 3, 4, 5 bodies.
        return np.hstack([vectors[: len(table)], vectors[len(table) :]])

    def _prepare(self, text: str) -> str:
        return without_stop_words(text) if self.clean else text.strip()
