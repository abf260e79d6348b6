"""REP, the lexical model that no deep one has clearly beaten (Sun et al., ASE 2011).

rep(d, q) = sum of w_i * feature_i over BM25F of single words, BM25F of word pairs, and agreement of product, component,
priority and version. The seven weights but one are the paper's: exports of the kind read here do not tell the type of a
report. Its closeness of priorities and versions, 1 / (1 + |difference|), is agreement here, since many trackers name
them; BM25F's inner parameters stay at the values that the paper starts from.
"""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.ranking import BLOCK
from gedbd.retrieval.scorers import Baseline
from gedbd.retrieval.scorers.fields import FieldAgreement
from gedbd.retrieval.scorers.lexical import MAX_CHARACTERS, has_words
from gedbd.retrieval.scorers.textless import linked_groups

START = {"words": 0.9, "word_pairs": 0.2, "product": 2.0, "component": 0.0, "priority": 0.0, "version": 0.0}


class Bm25F:
    """BM25F of title and description for long queries: sum over shared terms of IDF * TF / (k1 + TF).

    TF is the sum over both fields of weight * count / (1 - b + b * length / average length).

    Args:
        ngram: 1 for words, 2 for pairs of neighbouring words.
        max_characters: Of the description.
        title_weight: Weight of the title's counts; the description's is 1.
        title_b: How much a long title is discounted.
        description_b: How much a long description is discounted.
        k1: Where repeated terms saturate.
    """

    def __init__(
        self,
        ngram: int = 1,
        max_characters: int = MAX_CHARACTERS,
        title_weight: float = 3.0,
        title_b: float = 0.5,
        description_b: float = 1.0,
        k1: float = 2.0,
    ) -> None:
        self.ngram, self.max_characters = ngram, max_characters
        self.title_weight, self.title_b, self.description_b, self.k1 = title_weight, title_b, description_b, k1

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Counts terms. Document frequencies are those of all reports: they are text without labels."""
        titles = corpus.reports["title"]
        descriptions = corpus.reports["description"].str[: self.max_characters]
        counter = CountVectorizer(stop_words="english", ngram_range=(self.ngram, self.ngram), dtype=np.float32)
        texts = pd.concat([titles, descriptions])
        if not has_words(counter, texts):
            self.terms_ = csr_array((len(corpus), 1), dtype=np.float32)
            self.impact_ = csr_array((1, len(corpus)), dtype=np.float32)
            return
        counter.fit(texts)
        title, description = (csr_array(counter.transform(field)) for field in (titles, descriptions))
        count = self.title_weight * _by_length(title, self.title_b) + _by_length(description, self.description_b)
        self.terms_ = (count > 0).astype(np.float32).tocsr()
        idf = np.log(len(corpus) / self.terms_.sum(axis=0)).astype(np.float32)
        count.data = count.data / (self.k1 + count.data)
        self.impact_ = (count @ diags_array(idf)).T.tocsr()

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return np.asarray((self.terms_[rows] @ self.impact_).toarray(), dtype=np.float32)


class Rep:
    """The weighted sum, its weights learnt by RankNet.

    For each duplicate pair of the training part, ``irrelevant`` earlier reports of other groups are drawn; gradient
    descent on log(1 + exp(rep(irrelevant) - rep(relevant))) starts from the paper's weights.

    Args:
        max_characters: Of the description.
        irrelevant: Reports drawn for each pair.
        lr: Step of the gradient descent.
        epochs: Passes over the pairs.
        seed: Fixes draws and order.

    Attributes:
        weights_: Learnt weight of each feature, by name.
    """

    def __init__(
        self,
        max_characters: int = MAX_CHARACTERS,
        irrelevant: int = 30,
        lr: float = 0.001,
        epochs: int = 24,
        seed: int = 0,
    ) -> None:
        self.irrelevant, self.lr, self.epochs, self.seed = irrelevant, lr, epochs, seed
        self.features: dict[str, Baseline] = {"words": Bm25F(1, max_characters), "word_pairs": Bm25F(2, max_characters)}
        self.features |= {name: FieldAgreement(name) for name in list(START)[2:]}

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Fits BM25F, then learns the weights."""
        for feature in self.features.values():
            feature.fit(corpus, train)
        rng = np.random.default_rng(self.seed)
        ahead = self._differences(train[train["label"] == 1], linked_groups(train, len(corpus)), rng)
        weights = np.array(list(START.values()))
        for _ in range(self.epochs):
            for number in rng.permutation(len(ahead)):
                wrong = expit(-ahead[number] @ weights)
                weights = weights + self.lr * (wrong[:, None] * ahead[number]).sum(axis=0)
        self.weights_ = dict(zip(START, weights.tolist(), strict=True))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return np.asarray(sum(self.weights_[name] * feature(rows) for name, feature in self.features.items()))

    def _differences(self, positives: pd.DataFrame, group: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Features of each pair less those of irrelevant reports for the same query, a list of ``(irrelevant, F)``."""
        found = []
        later, earlier = positives["later"].to_numpy(), positives["earlier"].to_numpy()
        order = np.argsort(later, kind="stable")
        for start in range(0, len(order), BLOCK):
            chosen = order[start : start + BLOCK]
            rows, place = np.unique(later[chosen], return_inverse=True)
            scores = np.stack([feature(rows) for feature in self.features.values()], axis=-1)
            for pair, at in zip(chosen, place, strict=True):
                others = rng.integers(later[pair], size=self.irrelevant)
                others = others[group[others] != group[later[pair]]]
                found.append((scores[at, earlier[pair]] - scores[at, others]).astype(np.float64))
        return found


def _by_length(counts: csr_array, b: float) -> csr_array:
    """Counts over 1 - b + b * length / average length."""
    length = counts.sum(axis=1)
    norm = 1 - b + b * length / max(float(length.mean()), 1e-9)
    return csr_array(diags_array((1 / np.maximum(norm, 1e-9)).astype(np.float32)) @ counts)
