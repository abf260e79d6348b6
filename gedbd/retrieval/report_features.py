"""What is compared of a report, as numbers: vector, terms, product, component and date."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.retrieval.scorers.fields import CategoryEncoder, days_of, field_values
from gedbd.retrieval.scorers.lexical import MAX_CHARACTERS, short_texts
from gedbd.retrieval.vocabulary import Vocabulary, words


@dataclass(frozen=True)
class ReportFeatures:
    """B reports as numbers.

    Attributes:
        vectors: ``(B, D)`` float32, unit rows.
        text: The terms of title and description of each, in order, ``(L,)`` int32.
        title: The terms of the title of each.
        product: ``(B,)`` codes, see ``CategoryEncoder``.
        component: ``(B,)`` likewise.
        day: ``(B,)`` days since 1970, UTC; NaN where there is no date.
    """

    vectors: np.ndarray
    text: Sequence[np.ndarray]
    title: Sequence[np.ndarray]
    product: np.ndarray
    component: np.ndarray
    day: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, row: int) -> "ReportFeatures":
        """One of the reports."""
        return self.take([row])

    def take(self, rows: list[int]) -> "ReportFeatures":
        """Some of the reports."""
        return ReportFeatures(
            vectors=self.vectors[rows],
            text=[self.text[row] for row in rows],
            title=[self.title[row] for row in rows],
            product=self.product[rows],
            component=self.component[rows],
            day=self.day[rows],
        )


@dataclass(frozen=True)
class FeatureEncoder:
    """Turns reports into numbers.

    Attributes:
        vocabulary: Numbers of terms.
        product: Numbers of products.
        component: Numbers of components.
    """

    vocabulary: Vocabulary
    product: CategoryEncoder
    component: CategoryEncoder

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "FeatureEncoder":
        """An encoder with a vocabulary, which has not met any product or component."""
        return cls(vocabulary, CategoryEncoder(), CategoryEncoder())

    def encode(self, reports: pd.DataFrame, vectors: np.ndarray, learn: bool) -> ReportFeatures:
        """Reports as numbers.

        Args:
            reports: B reports.
            vectors: ``(B, D)`` unit rows.
            learn: Give numbers to new terms and values, as when reports are stored.
        """
        text, title = terms_of(reports, self.vocabulary, learn)
        product, component = self.encode_categories(reports, learn)
        return ReportFeatures(vectors, text, title, product, component, days_of(reports["created_at"]))

    def encode_categories(self, reports: pd.DataFrame, learn: bool) -> tuple[np.ndarray, np.ndarray]:
        """Codes of products and components, ``(B,), (B,)``."""
        product = self.product(field_values(reports, "product"), learn)
        return product, self.component(field_values(reports, "component"), learn)


def terms_of(reports: pd.DataFrame, vocabulary: Vocabulary, learn: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Terms of title and description, and of the title alone, of each report; see ``FeatureEncoder.encode``."""
    # Cut as the BM25 baseline cuts, so that evaluation and search count the same words.
    text = vocabulary(words(short_texts(reports, MAX_CHARACTERS)), learn)
    return text, vocabulary(words(list(reports["title"])), learn)
