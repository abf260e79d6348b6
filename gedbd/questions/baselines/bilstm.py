"""A bidirectional LSTM over word vectors, trained with triplets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import triplet_margin_loss
from torch.nn.utils.rnn import pack_padded_sequence

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.retrieval.inverted_index import short_texts
from gedbd.retrieval.scorers.dense_scorer import cosines
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs
from gedbd.retrieval.scorers.word_vectors import Word2Vec

MAX_DRAWS = 20
ENCODING_BATCH_SIZE = 256


class BiLstm(nn.Module):
    """Projects the last states of both directions of an LSTM to one vector.

    Args:
        word_vectors: ``(V, D)`` vectors of words; they are not trained.
        hidden: Size H of a state.
        dim: Size of the projected vector.
    """

    def __init__(self, word_vectors: np.ndarray, hidden: int, dim: int) -> None:
        super().__init__()
        # Row 0 pads: word 3 is row 4.
        padded = np.concatenate([np.zeros((1, word_vectors.shape[1]), dtype=np.float32), word_vectors])
        self.words: Tensor
        self.register_buffer("words", torch.from_numpy(padded))
        self.lstm = nn.LSTM(padded.shape[1], hidden, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(2 * hidden, dim)

    def forward(self, texts: Sequence[np.ndarray]) -> Tensor:
        """Encodes U non-empty texts of word numbers, ``(U, dim)``."""
        lengths = torch.tensor([len(text) for text in texts])
        numbers = np.zeros((len(texts), int(lengths.max())), dtype=np.int64)
        for row, text in enumerate(texts):
            numbers[row, : len(text)] = text + 1
        packed = pack_padded_sequence(
            self.words[torch.from_numpy(numbers)], lengths, batch_first=True, enforce_sorted=False
        )
        _, (states, _) = self.lstm(packed)
        # The states (2, U, H) of both directions side by side, (U, 2H).
        projected: Tensor = self.projection(torch.cat([states[0], states[1]], dim=1))
        return projected


@dataclass(eq=False)
class BiLstmScorer(Scorer):
    """Cosine of the vectors of an LSTM that is trained with the triplet loss.

    The baseline "word2vec + BiLSTM" of Hazra et al. (2023) reads the Google News vectors, and "GloVe + BiLSTM" those of
    GloVe; neither can be shipped. Here word2vec learns word vectors from the corpus. A triplet is a training query, its
    duplicate, and a random earlier document, drawn again in each epoch.

    Attributes:
        losses_: Mean loss of each epoch.
    """

    words: Word2Vec  # learns the word vectors
    hidden: int = 64  # size of a state of the LSTM in each direction
    dim: int = 128  # size of a document's vector
    max_words: int = 100  # maximum number of words of a document's title and description
    margin: float = 0.5  # distance by which the duplicate should be nearer, in [0, 2] for vectors of length 1
    epochs: int = 10  # passes over the training pairs
    lr: float = 0.001  # learning rate of Adam
    batch_size: int = 32  # number of triplets in a batch
    seed: int = 0  # seed of the initial weights, the triplets and their order

    def __post_init__(self) -> None:
        for name in ("hidden", "dim", "max_words", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"bilstm: {name}={getattr(self, name)} must be 1 or more")

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns word vectors from all documents, and the LSTM from training pairs.

        Raises:
            ValueError: If there is no training pair to learn from.
        """
        rng = np.random.default_rng(self.seed)
        first_triplets = draw_triplets(inputs, rng)  # before the slow word vectors, since it may raise
        self.words.fit(inputs.documents)
        documents = self._number_texts(inputs.documents)
        queries = documents if inputs.one_table else self._number_texts(inputs.queries)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.model_ = BiLstm(self.words.word_vectors_, self.hidden, self.dim)
        self._train(first_triplets, queries, documents, inputs, rng)
        self.documents_ = self._encode(documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(queries)
        empty = sum(len(text) == 0 for text in documents)
        self.warnings_ = self.words.warnings_
        if empty:
            self.warnings_ += (f"bilstm: documents without a known word: {empty:,} of {len(documents):,}, score 0",)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines; 0 for a document without a known word."""
        return cosines(self.documents_, self.queries_[rows])

    def _number_texts(self, table: pd.DataFrame) -> list[np.ndarray]:
        """Numbers of the first ``max_words`` known words of each document."""
        has_vector = np.asarray(self.words.word_vectors_.any(axis=1))
        known = []
        for text in self.words.number_texts(short_texts(table, self.words.max_characters)):
            known_words = text[text >= 0]
            known.append(known_words[has_vector[known_words]][: self.max_words])
        return known

    def _train(
        self,
        triplets: np.ndarray,
        queries: list[np.ndarray],
        documents: list[np.ndarray],
        inputs: ScorerInputs,
        rng: np.random.Generator,
    ) -> None:
        optimizer = torch.optim.Adam(self.model_.parameters(), lr=self.lr)
        self.losses_ = []
        for epoch in track(range(self.epochs), "train bilstm"):
            drawn = triplets if epoch == 0 else draw_triplets(inputs, rng)
            text_triplets = [
                (queries[query], documents[positive], documents[negative]) for query, positive, negative in drawn
            ]
            text_triplets = [triplet for triplet in text_triplets if all(map(len, triplet))]
            order = rng.permutation(len(text_triplets))
            losses = []
            for start in range(0, len(order), self.batch_size):
                loss = self._loss([text_triplets[position] for position in order[start : start + self.batch_size]])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                losses.append(float(loss.detach()))
            self.losses_.append(float(np.mean(losses)) if losses else 0.0)

    def _loss(self, triplets: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Tensor:
        """max(|a - p| - |a - n| + margin, 0) of unit vectors, the mean over triplets."""
        columns = [self.model_(texts) for texts in zip(*triplets, strict=True)]
        query, positive, negative = (nn.functional.normalize(column, dim=1) for column in columns)
        return triplet_margin_loss(query, positive, negative, margin=self.margin)

    @torch.no_grad()
    def _encode(self, texts: list[np.ndarray]) -> np.ndarray:
        """Unit vectors of N texts, ``(N, dim)`` float32; zeros for an empty text."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        lengths = np.array([len(text) for text in texts])
        # Texts of similar length together need little padding; empty ones come first and are left out.
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        for start in track(range(0, len(order), ENCODING_BATCH_SIZE), "encode with bilstm"):
            rows = order[start : start + ENCODING_BATCH_SIZE]
            vectors[rows] = self.model_([texts[row] for row in rows]).numpy()
        return unit_rows(vectors)


def draw_triplets(inputs: ScorerInputs, rng: np.random.Generator) -> np.ndarray:
    """Draws a random earlier irrelevant document as the negative of each positive training pair.

    Returns:
        ``(T, 3)`` rows of a query, a relevant and an irrelevant document; pairs without an irrelevant one in
        ``MAX_DRAWS`` draws are left out.

    Raises:
        ValueError: If there is no positive pair, or no negative for any pair.
    """
    positives = inputs.train.loc[inputs.train["label"] == 1, ["query", "document"]].to_numpy(dtype=np.int64)
    relevance = inputs.relevance()
    num_earlier = inputs.num_earlier
    triplets = []
    for query, document in positives:
        relevant_rows = relevance.relevant(int(query))
        draws = rng.integers(max(1, num_earlier[query]), size=MAX_DRAWS)
        irrelevant_rows = draws[~np.isin(draws, relevant_rows) & (draws < num_earlier[query])]
        if len(irrelevant_rows):
            triplets.append((query, document, irrelevant_rows[0]))
    if not triplets:
        raise ValueError("no training pair has an earlier irrelevant document: there is nothing to learn from")
    return np.array(triplets, dtype=np.int64)
