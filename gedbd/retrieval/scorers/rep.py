"""REP, a lexical model that no deep model has clearly beaten (Sun et al., ASE 2011).

rep(d, q) = sum of w_i * feature_i over BM25F of single words, BM25F of word pairs, and agreement of product, component,
priority and version. These are six of the paper's seven features: the exports that are read here do not have the type
of a report. The paper's closeness of priorities and versions, 1 / (1 + |difference|), is agreement here, since in many
trackers they are names; BM25F's inner parameters keep the values that the paper starts from.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer

from gedbd.retrieval.inverted_index import MAX_CHARACTERS
from gedbd.retrieval.scorers.bm25 import COUNTED, has_words
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer, ScorerInputs, linked_groups
from gedbd.retrieval.scorers.simple_scorers import FieldAgreement

TITLE_WEIGHT = 3.0  # of the title's counts; the description's is 1
TITLE_B = 0.5  # discount of long titles, 0 for none to 1
DESCRIPTION_B = 1.0  # and of long descriptions
K1 = 2.0  # the larger it is, the later repeated terms saturate
INITIAL_WEIGHTS = {"words": 0.9, "word_pairs": 0.2, "product": 2.0, "component": 0.0, "priority": 0.0, "version": 0.0}


@dataclass(eq=False)
class Bm25F(Scorer):
    """BM25F of title and description for long queries: sum over shared terms of IDF * TF / (k1 + TF).

    TF is the sum over both fields of weight * count / (1 - b + b * length / average length).
    """

    ngram: int = 1  # 1 for words, 2 for pairs of neighbouring words
    max_characters: int = MAX_CHARACTERS  # length that descriptions are cut to

    def fit(self, inputs: ScorerInputs) -> None:
        """Counts terms. Document frequencies are those of all reports: they are text without labels."""
        inputs.check_one_table("BM25F")
        titles = inputs.documents["title"]
        descriptions = inputs.documents["description"].str[: self.max_characters]
        num_reports = len(inputs.documents)
        counter = CountVectorizer(**COUNTED, ngram_range=(self.ngram, self.ngram), dtype=np.float32)
        texts = pd.concat([titles, descriptions])
        if not has_words(counter, texts):
            self.terms_ = csr_array((num_reports, 1), dtype=np.float32)
            self.impact_ = csr_array((1, num_reports), dtype=np.float32)
            return
        counter.fit(texts)
        title = csr_array(counter.transform(titles))
        description = csr_array(counter.transform(descriptions))
        count = TITLE_WEIGHT * _by_length(title, TITLE_B) + _by_length(description, DESCRIPTION_B)
        self.terms_ = (count > 0).astype(np.float32).tocsr()
        idf = np.log(num_reports / self.terms_.sum(axis=0)).astype(np.float32)
        # A score is the product of a query's 0/1 terms with idf * TF / (k1 + TF) of the documents.
        count.data = count.data / (K1 + count.data)
        self.impact_ = (count @ diags_array(idf)).T.tocsr()

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        return np.asarray((self.terms_[rows] @ self.impact_).toarray(), dtype=np.float32)


@dataclass(eq=False)
class Rep(Scorer):
    """REP with weights learned by RankNet.

    For each duplicate pair of the training split, ``irrelevant`` earlier reports of other groups are drawn; gradient
    descent on log(1 + exp(rep(irrelevant) - rep(relevant))) starts from the paper's weights.
    """

    max_characters: int = MAX_CHARACTERS
    irrelevant: int = 30
    lr: float = 0.001
    epochs: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        lexical = {"words": Bm25F(1, self.max_characters), "word_pairs": Bm25F(2, self.max_characters)}
        agreement = {name: FieldAgreement(name) for name in list(INITIAL_WEIGHTS)[2:]}
        self.features: dict[str, Scorer] = {**lexical, **agreement}

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits BM25F, then learns the weights."""
        inputs.check_one_table("REP")
        for feature in self.features.values():
            feature.fit(inputs)
        rng = np.random.default_rng(self.seed)
        train = inputs.train
        differences = self._differences(train[train["label"] == 1], linked_groups(train, len(inputs.documents)), rng)
        weights = np.array(list(INITIAL_WEIGHTS.values()))
        for _ in range(self.epochs):
            for number in rng.permutation(len(differences)):
                # The gradient's share of each irrelevant report: near 1 where it is ranked above the relevant one.
                shares = expit(-differences[number] @ weights)
                weights = weights + self.lr * (shares[:, None] * differences[number]).sum(axis=0)
        self.weights_ = dict(zip(INITIAL_WEIGHTS, weights.tolist(), strict=True))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        return np.asarray(sum(self.weights_[name] * feature.scores(rows) for name, feature in self.features.items()))

    def _differences(self, positives: pd.DataFrame, group: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Features of each pair less those of irrelevant reports for the same query, a list of ``(irrelevant, F)``."""
        differences = []
        queries = positives["query"].to_numpy()
        relevant = positives["document"].to_numpy()
        order = np.argsort(queries, kind="stable")  # pairs of one query together: its scores are computed once
        for start in range(0, len(order), BLOCK):
            chosen = order[start : start + BLOCK]
            rows, positions = np.unique(queries[chosen], return_inverse=True)
            scores = np.stack([feature.scores(rows) for feature in self.features.values()], axis=-1)
            for pair, position in zip(chosen, positions, strict=True):
                irrelevant_rows = rng.integers(queries[pair], size=self.irrelevant)
                # A draw may hit the query's own group: these are left out, and the pair has fewer irrelevant reports.
                irrelevant_rows = irrelevant_rows[group[irrelevant_rows] != group[queries[pair]]]
                differences.append(
                    (scores[position, relevant[pair]] - scores[position, irrelevant_rows]).astype(np.float64)
                )
        return differences


def _by_length(counts: csr_array, b: float) -> csr_array:
    """Counts over 1 - b + b * length / average length."""
    length = counts.sum(axis=1)
    # A field that is empty in all reports has an average length of 0.
    norm = 1 - b + b * length / max(float(length.mean()), 1e-9)
    return csr_array(diags_array((1 / np.maximum(norm, 1e-9)).astype(np.float32)) @ counts)
